#!/bin/sh
# Shows that this machine runs procedures without the site's Airflow: it compares the records of the last hour on both
# clusters, in an Airflow of its own, and changes nothing. Usage: prove.sh FOLDER USER SOURCE TARGET
#
# FOLDER (mode 700) has users.json and connections/*.json (mode 600 each), as for --own-database; USER stands in
# users.json. KAFKA_DR_TOPOLOGY and what Java and Spark need stand in the environment.
set -eu
folder=$1 user=$2 source=$3 target=$4
since=$(date -u -d "-70 minutes" +%Y-%m-%dT%H:%MZ)
until=$(date -u -d "-10 minutes" +%Y-%m-%dT%H:%MZ)
password=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$folder/users.json" "$user")
# The shell's own printf: the password stands on no command line.
printf '%s\n' "$password" | switchback run reconcile_clusters --as "$user" --own-database "$folder" --conf "{
  \"source\": \"$source\", \"target\": \"$target\", \"since\": \"$since\", \"until\": \"$until\",
  \"reason\": \"proof of the warm machine $(hostname)\"}"
