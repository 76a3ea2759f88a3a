"""The lab as containers (docker-compose.yaml): its init jobs, and how the machine outside reaches it.

Inside, the lab's folder is ROOT in every container, with a volume at each place that only some of them may see; the
hosts are the services of docker-compose.yaml.
"""
