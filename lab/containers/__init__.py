"""Run the lab as containers (docker-compose.yaml): init jobs inside the containers, and access from the host.

In every container the lab's folder is /var/lib/switchback (`stack.ROOT`); folders that only some containers can read
are separate volumes. Each host name in the lab's settings is the name of a service in docker-compose.yaml.
"""
