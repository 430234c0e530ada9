#!/usr/bin/env python3
"""How long the page of a history of 5,000 commits takes until something is seen, and whether the browser complains of it.

usage: first_paint.py TRUECOUNT STORE_SPEED [COMMITS]

STORE_SPEED is the example of crates/history (cargo build --release -p truecount-history --example store_speed). Needs
Chromium. Prints the browser's own first contentful paint, from the beginning of navigation, in five new browsers, at 1280
and at 390 pixels; exit status 1 if the median is over a second or the console is not empty.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile

from store import commits

GOAL = 1000
BROWSER = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr"]
# The time is told by the console, which the browser writes to stderr.
PROBE = """<script>new PerformanceObserver(list => { for (const paint of list.getEntries()) if (paint.name ===
"first-contentful-paint") console.log("painted after " + paint.startTime); }).observe({type: "paint", buffered: true});
</script>"""


def main():
    truecount, store_speed = map(os.path.abspath, sys.argv[1:3])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 5000
    wrong = False
    with tempfile.TemporaryDirectory(prefix="truecount-paint-") as directory:
        hashes = commits(directory, count)
        subprocess.run([store_speed, "s.db", "suite", "10", "5", "noisy"], cwd=directory, check=True, text=True, input=hashes,
                       stdout=subprocess.DEVNULL)
        page = os.path.join(directory, "page.html")
        subprocess.run([truecount, "history", "page", "--store", "s.db", "-o", page], cwd=directory, check=True)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        with open(page, "w", encoding="utf-8") as file:
            file.write(text.replace("<head>", "<head>" + PROBE, 1))
        print(f"{count} commits, 50 series: {len(text) / 1e6:.1f} MB")
        for width in (1280, 390):
            times = []
            for number in range(5):
                said = subprocess.run([*BROWSER, f"--user-data-dir={directory}/profile-{width}-{number}", f"--window-size={width},900",
                                       f"--screenshot={directory}/shot.png", f"file://{page}"], text=True, check=True,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr
                lines = [line for line in said.splitlines() if ":CONSOLE" in line]
                painted = [float(found[1]) for line in lines if (found := re.search(r"painted after ([0-9.]+)", line))]
                others = [line for line in lines if "painted after" not in line]
                if others or not painted:
                    wrong = True
                    print("\n".join(others) or "the browser told no time")
                times += painted[:1]
            if times:
                median = statistics.median(times)
                wrong |= median > GOAL
                print(f"{width} pixels: first contentful paint after {median:.0f} ms ({min(times):.0f} to {max(times):.0f}; goal {GOAL})")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
