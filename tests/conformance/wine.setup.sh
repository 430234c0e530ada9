command -v wine >/dev/null || exit 0
export WINEPREFIX=$PWD/w WINEDEBUG=-all HOME=$PWD
timeout 200 wine wineboot -i 2>/dev/null; timeout 60 wineserver -w; [ -d w ]
