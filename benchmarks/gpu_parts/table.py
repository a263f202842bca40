"""The numbers of `benchmarks/gpu.py` as a table."""

from __future__ import annotations

from typing import Any


def table(found: dict[str, Any]) -> str:
    """Lines for people: a row for each thing that was measured, or why it was not."""
    peak = found["peak_flops"]
    told = f"peak {peak / 1e12:,.0f} TFLOP/s" if peak else "whose peak in bfloat16 is not known"
    lines = [f"{found['device']}, {told}, torch {found['torch']}, {found['seconds']} s in all"]
    head = ("", "tok/s", "of peak", "step s", "peak GB", "planned", "micro-batch")
    for shape, parts in found["shapes"].items():
        lines += ["", shape]
        if "learning" not in parts:
            lines.append(f"  {parts['failed']}")
            continue
        lines.append(_columns(head))
        rows = {"learning, by default": parts["learning"], **parts["changes"]}
        lines += [_row(name, row, peak) for name, row in rows.items()]
        phases = parts["learning"].get("phases", {})
        if phases:
            lines.append("  phases: " + ", ".join(f"{k} {v:.3f} s" for k, v in phases.items()))
        lines += [_sampled(name, row) for name, row in parts["sampling"].items()]
    return "\n".join(lines)


def _row(name: str, row: dict[str, Any], peak: float | None) -> str:
    if "tokens_per_second" not in row:
        return f"  {name:<32} {_why_not(row)}"
    share = f"{row['flops_per_second'] / peak:.1%}" if peak else "-"
    peaks = [
        f"{row[key] / 1e9:.2f}" if key in row else "-" for key in ("peak_bytes", "planned_bytes")
    ]
    batch = f"{row['micro_batch_tokens']:,}"
    speed = f"{row['tokens_per_second']:,.0f}"
    return _columns((name, speed, share, f"{row['step_seconds']:.3f}", *peaks, batch))


def _sampled(name: str, row: dict[str, Any]) -> str:
    if "tokens_per_second" not in row:
        return f"  sampling by {name}: {_why_not(row)}"
    return f"  sampling by {name}: {row['tokens_per_second']:,.0f} new tokens/s, {row['rows']} rows"


def _why_not(row: dict[str, Any]) -> str:
    return f"left out: {row['left_out']}" if "left_out" in row else f"failed: {row['failed']}"


def _columns(cells: tuple[str, ...]) -> str:
    name, *rest = cells
    return f"  {name:<32}" + "".join(f"{cell:>12}" for cell in rest)
