// Ticks and labels of a chart's axes.

function niceTicks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10]
    .map((factor) => factor * power)
    .find((size) => size >= rough * 0.999);
  const ticks = [];
  for (let n = Math.floor(low / step + 1e-9); n <= Math.ceil(high / step - 1e-9); n++)
    ticks.push(n * step);
  return ticks;
}

// Ticks that end with the axis, at `high`: the last round number makes room where it is near.
function ticksUpTo(low, high, wanted) {
  const ticks = niceTicks(low, high, wanted).filter((tick) => tick < high * (1 - 1e-9));
  if (ticks.length > 1 && high - ticks.at(-1) < 0.5 * (ticks[1] - ticks[0])) ticks.pop();
  return [...ticks, high];
}

function stepTicks(first, last, most) {
  if (last === first) return [first];
  const size = Math.max(1, Math.ceil(niceTicks(0, last - first, most)[1] || 1));
  const ticks = [];
  for (let n = Math.ceil(first / size) * size; n <= last; n += size) ticks.push(n);
  return ticks;
}

// The label of a tick; all ticks of an axis have the same number of decimals.
function axisLabel(value, unit, ticks) {
  const gaps = ticks.slice(1).map((tick, n) => tick - ticks[n]);
  const size = gaps.length ? gaps.reduce((a, b) => (finest(a) <= finest(b) ? a : b)) : 1;
  if (unit === "share") {
    return `${fixed(100 * value, places(100 * size))} %`;
  }
  if (size < 0.001) return value ? value.toExponential(places(size / power(size))).replace("-", "−") : "0";
  if (Math.abs(ticks.at(-1)) >= 10000) return `${fixed(value / 1000, places(size / 1000))}k`;
  return fixed(value, places(size));
}

function finest(size) {
  return size ? 10 ** -places(size) : 1;
}

function power(size) {
  return 10 ** Math.floor(Math.log10(size) + 1e-9);
}

// The decimals that steps of this size need.
function places(size) {
  for (let digits = 0; digits < 6; digits++) {
    const scaled = size * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6) return digits;
  }
  return 6;
}
