"""The lab as containers (docker-compose.yaml): init jobs, and access from the host.

In every container the lab's folder is ROOT; paths that only some containers may see are separate volumes. The hosts are
the services of docker-compose.yaml.
"""
