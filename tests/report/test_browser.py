"""The page in a real browser: it renders without console messages, and fits a phone."""

import html
import json
import re
import shutil
import subprocess

import pytest

from report.folders import KINDS

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on the PATH")
# The page itself runs no scripts, so another page measures it in two frames, as wide as a phone and
# a desktop. Texts of a chart must neither leave it nor overlap.
WATCHER = """<!doctype html><body style="margin:0">
<iframe src="page.html" style="width:360px;height:900px;border:0"></iframe>
<iframe src="page.html" style="width:1200px;height:900px;border:0"></iframe><pre></pre><script>
function look(frame) {
  const page = frame.contentDocument, root = page.documentElement, met = [], out = [];
  page.querySelectorAll('details').forEach(d => d.open = true);
  const charts = [...page.querySelectorAll('svg.chart')];
  for (const chart of charts) {
    const texts = [...chart.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]);
    const own = chart.getBoundingClientRect();
    texts.forEach(([t, a], i) => {
      if (a.left < own.left - 1 || a.right > own.right + 1) out.push(t.textContent);
      for (const [u, b] of texts.slice(i + 1))
        if (a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom)
          met.push(t.textContent + ' | ' + u.textContent);
    });
  }
  return {width: root.clientWidth, needed: root.scrollWidth, met, out, charts: charts.length,
    ink: page.body.innerText.length,
    ground: page.defaultView.getComputedStyle(page.body).backgroundColor};
}
onload = () => document.querySelector('pre').textContent =
  JSON.stringify([...document.querySelectorAll('iframe')].map(look));
</script></body>"""


def look(page, folder, *options):
    """Return the measurements at both widths, and the log of the browser."""
    (folder / "page.html").write_text(page)
    (folder / "watcher.html").write_text(WATCHER)
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files"]
    command += ["--enable-logging=stderr", "--window-size=1300,900", *options, "--dump-dom"]
    command += [(folder / "watcher.html").as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    seen = re.search(r"<pre>(.+?)</pre>", ended.stdout, re.DOTALL)
    assert seen, ended.stderr
    return json.loads(html.unescape(seen[1])), ended.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_it_renders_and_fits(kind, pages, tmp_path):
    both, log = look(pages(kind), tmp_path)
    assert "CONSOLE" not in log
    assert [seen["width"] for seen in both] == [360, 1200]
    for seen in both:
        assert seen["needed"] <= seen["width"]
        assert seen["charts"] >= 1
        assert seen["ink"] > 1500
        assert (seen["met"], seen["out"]) == ([], [])
        assert seen["ground"] == "rgb(251, 251, 249)"


def test_it_is_dark_where_dark_is_preferred(page, tmp_path):
    both, _ = look(page, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert [seen["ground"] for seen in both] == ["rgb(20, 23, 26)"] * 2
