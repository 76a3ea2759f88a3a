"""Runs one procedure by the command run_procedure, while the scheduler of the site's Airflow does not run.

The site's Airflow runs the DAGs on other days. The command starts another one, the command's Airflow, which has its
own database in a folder on this machine, runs this procedure alone, and ends with the command.
"""
