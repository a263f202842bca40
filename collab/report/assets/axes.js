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

function stepTicks(first, last, most) {
  if (last === first) return [first];
  const size = Math.max(1, Math.ceil(niceTicks(0, last - first, most)[1] || 1));
  const ticks = [];
  for (let n = Math.ceil(first / size) * size; n <= last; n += size) ticks.push(n);
  return ticks;
}

function axisLabel(value, unit, ticks) {
  if (unit === "share") return `${Number((100 * value).toPrecision(3))} %`.replace("-", "−");
  const size = ticks[1] - ticks[0];
  if (Math.abs(ticks.at(-1)) < 0.01 || size < 0.001)
    return value ? value.toExponential(0).replace("-", "−") : "0";
  if (Math.abs(value) >= 10000) return `${Math.round(value / 100) / 10}k`.replace("-", "−");
  return fixed(
    value,
    Math.max(
      0,
      Math.ceil(
        -Math.log10(size) - 1e-9 + (size % 10 ** Math.floor(Math.log10(size)) > 1e-12 ? 1 : 0),
      ),
    ),
  );
}
