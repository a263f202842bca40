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

// The label of a tick, in few digits.
function axisLabel(value, unit, ticks) {
  const largest = Math.max(...ticks.map(Math.abs));
  const notation = largest >= 10000 ? "compact" : largest < 0.001 ? "scientific" : "standard";
  const maximumSignificantDigits = notation === "standard" ? 4 : 3;
  const format = new Intl.NumberFormat("en", { maximumSignificantDigits, notation });
  const isShare = unit === "share";
  const text = format.format(isShare ? 100 * value : value).replace("-", "−");
  return isShare ? `${text} %` : text;
}
