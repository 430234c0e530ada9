# needs: wine
# package: wine wine64
# time: 600
# when: all
# ignore: .
export WINEPREFIX=$PWD/w WINEDEBUG=-all HOME=$PWD
wine cmd /c 'echo hello & ver & exit 7' 2>/dev/null | tr -d '\r'; echo "status ${PIPESTATUS[0]}"
wine cmd /c 'for /L %i in (1,1,5) do @echo %i' 2>/dev/null | tr -d '\r'
wineserver -k
