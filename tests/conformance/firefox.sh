# needs: firefox-esr
# package: firefox-esr
# time: 900
# when: all
# ignore: .
export HOME=$PWD
echo '<body style="background:#fed"><h1>x</h1><script>let s=0;for(let i=0;i<1e5;i++)s+=i*i%7;document.body.append(s)</script>' > p.html
firefox-esr --headless --no-remote --profile "$PWD" --screenshot "$PWD/s.png" --window-size 320,200 "file://$PWD/p.html" >/dev/null 2>&1; echo "status $?"
md5sum < s.png
