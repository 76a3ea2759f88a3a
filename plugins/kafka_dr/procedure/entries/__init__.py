"""Facts that procedures write to the journal: a class per kind of content, and functions that read the journal.

Import from here. A fact is written as its `payload`; readers call `facts_of`, `facts_in` or `newest_fact` for a class.
"""

from kafka_dr.procedure.entries.changing import *
from kafka_dr.procedure.entries.comparison import *
from kafka_dr.procedure.entries.diagnosing import *
from kafka_dr.procedure.entries.drills import *
from kafka_dr.procedure.entries.fact import *
from kafka_dr.procedure.entries.fencing import *
from kafka_dr.procedure.entries.guarding import *
from kafka_dr.procedure.entries.lost_cluster import *
from kafka_dr.procedure.entries.planning import *
from kafka_dr.procedure.entries.positions import *
from kafka_dr.procedure.entries.re_replication import *
from kafka_dr.procedure.entries.records import *
from kafka_dr.procedure.entries.replication import *
from kafka_dr.procedure.entries.running import *
from kafka_dr.procedure.entries.stranded import *
