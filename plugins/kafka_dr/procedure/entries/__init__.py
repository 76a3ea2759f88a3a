"""What procedures write to the journal: a class for each shape of entry, and how entries are read.

Import from here. A step writes a fact by its `payload`; readers ask `newest`, `all_of` or `facts_of` for a class.
"""

from kafka_dr.procedure.entries.fact import *
from kafka_dr.procedure.entries.fencing import *
from kafka_dr.procedure.entries.planning import *
from kafka_dr.procedure.entries.positions import *
from kafka_dr.procedure.entries.records import *
from kafka_dr.procedure.entries.replication import *
from kafka_dr.procedure.entries.running import *
from kafka_dr.procedure.entries.stranded import *
