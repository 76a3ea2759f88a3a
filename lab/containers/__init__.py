"""The lab as containers (docker-compose.yaml): init jobs, and access from the host.

In every container the lab's folder is ROOT; folders that only some containers may read are separate volumes. Each host
is a service of docker-compose.yaml.
"""
