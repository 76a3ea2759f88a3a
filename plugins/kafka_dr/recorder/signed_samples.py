"""Reads an archive of signed samples: only files count whose statement is valid, and that continue the chain."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafka_dr.domain.sample_chain import SampleChain, SampleStatement
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.sample_proof import SampleProof


class SignedSamples:
    """The samples of one flow that are proven; `back` returns them as the archive's own `back` would.

    Attributes:
        chain: what the last call of `back` has read so far, and what did not count.
    """

    def __init__(self, archive: Archive, proof: SampleProof) -> None:
        self._archive, self._proof = archive, proof
        self.chain = SampleChain()

    def back(self, kind: str, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Yield the proven rows of each hour, newest hour first, down to where a sample is missing.

        Args:
            columns: names of the columns to return; None for all columns.
        """
        self.chain = SampleChain()
        for hour in self._archive.hours(kind):
            tables, statements = self.proven(kind, hour, self.chain)
            chosen = [tables[name] for name in self.chain.follow(statements)]
            if chosen:
                rows = pa.concat_tables([t.replace_schema_metadata(None) for t in chosen], promote_options="default")
                yield rows if columns is None else rows.select(columns)
            if self.chain.ended:
                return

    def newest(self, kind: str) -> SampleStatement | None:
        """Return the newest statement; None if no file has a valid one."""
        for _ in self.back(kind, []):
            break
        return self.chain.newest

    def proven(
        self, kind: str, hour: str, chain: SampleChain
    ) -> tuple[dict[str, pa.Table], dict[str, SampleStatement]]:
        """Return rows and statements of an hour's files with a valid statement, by path within the flow's folder.

        Args:
            chain: remembers the other files, and why they do not count.
        """
        tables, statements = dict[str, pa.Table](), dict[str, SampleStatement]()
        for name, rows in self._archive.files(kind, hour).items():
            found = "it is no Parquet file" if rows is None else self._proof.statement_of(rows, hour)
            if isinstance(found, str):
                chain.ignore(name, found)
            else:
                tables[name], statements[name] = rows, found
        return tables, statements
