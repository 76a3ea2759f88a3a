"""Signs the flight recorder's samples, stores them in the archive, and merges past hours under a new statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from kafka_dr.domain.sample_chain import ClusterIds, SampleChain, SampleStatement
from kafka_dr.hooks.archive import Archive
from kafka_dr.hooks.signing import Signer
from kafka_dr.recorder.journal_notes import JournalNotes
from kafka_dr.recorder.sample_proof import SampleProof, rows_digest, with_proof
from kafka_dr.recorder.signed_samples import SignedSamples


class SampleSigning:
    """Stores one flow's samples as links of a chain of signed statements."""

    def __init__(self, archive: Archive, kind: str, proof: SampleProof, signer: Signer, notes: JournalNotes) -> None:
        """Prepare the signing; nothing is read or written yet.

        Args:
            kind: the archive's kind of rows.
            proof: what a file must prove; its keys include that of `signer`.
        """
        self._archive, self._kind, self._proof, self._signer, self._notes = archive, kind, proof, signer, notes
        self._samples = SignedSamples(archive, proof)
        self._last: tuple[int, str | None] | None = None
        self._merged_files: dict[str, list[str]] = {}

    def write(self, rows: pa.Table, at: datetime, ids: ClusterIds, dropped: int) -> None:
        """Store a sample as the next link; after an error the same call stores the same link.

        Args:
            at: start of the sample.
            ids: cluster ids of source and target; None for a cluster that did not answer.
            dropped: samples that were taken after the stored one before, and given up.

        Raises:
            ArchiveUnavailable: the archive cannot be read or written.
        """
        if self._last is None:
            newest = self._samples.newest(self._kind)
            self._last = (newest.last, newest.digest) if newest else (0, None)
        number, before = max(self._last, self._notes.noted or (0, None), key=lambda link: link[0])
        statement = SampleStatement(
            self._proof.flow,
            ids,
            first=number + 1,
            last=number + 1,
            at=int(at.timestamp() * 1000),
            rows=rows_digest(rows),
            before=before,
            dropped=dropped,
        )
        self._archive.write(self._kind, with_proof(rows, statement, self._signer), at, f"{statement.last:010d}")
        self._last = statement.last, statement.digest
        self._notes.note(statement)

    def merge(self, before: datetime) -> None:
        """Merge the proven files of each hour that had ended; what is unsigned or altered stays as it is.

        Args:
            before: only hours that had ended by this time are merged.
        """
        for hour in self._archive.hours(self._kind):
            if hour >= f"{before.astimezone(UTC):%Y-%m-%d/%H}":
                continue
            names = self._archive.names(self._kind, hour)
            if len(names) > 1 and names != self._merged_files.get(hour):
                self._merge_hour(hour)
                self._merged_files[hour] = self._archive.names(self._kind, hour)

    def _merge_hour(self, hour: str) -> None:
        """Merge each run of files that follow one another in the chain; delete files whose samples another file holds.

        What the last merge left, because it is unsigned or altered, is looked at again only when files have changed.
        """
        tables, statements = self._samples.proven(self._kind, hour, SampleChain())
        while statements:
            chain = SampleChain()
            run = chain.follow(statements)
            oldest, newest = statements[run[0]], statements[run[-1]]
            held = [name for name, one in statements.items() if oldest.first <= one.first and one.last <= newest.last]
            if len(run) > 1:
                parts = [tables[name].replace_schema_metadata(None) for name in run]
                rows = pa.concat_tables(parts, promote_options="default")
                self._archive.replace(held, self._merged(rows, [statements[name] for name in run], chain.ids))
            else:
                self._archive.delete([name for name in held if name not in run])
            statements = {name: one for name, one in statements.items() if name not in held}

    def _merged(self, rows: pa.Table, run: Sequence[SampleStatement], ids: ClusterIds) -> pa.Table:
        oldest, newest = run[0], run[-1]
        statement = SampleStatement(
            self._proof.flow,
            ids,
            first=oldest.first,
            last=newest.last,
            at=newest.at,
            rows=rows_digest(rows),
            before=oldest.before,
            dropped=sum(one.dropped for one in run),
            link=newest.digest,
        )
        return with_proof(rows, statement, self._signer)
