# needs: gawk
# package: gawk
# when: ci
gawk 'BEGIN { for (i = 0; i < 30000; i++) { s += i % 7; a[i % 100] = a[i % 100] i % 10 } print s, length(a[7]);
  "echo command" | getline x; print x; print strftime("%Y", 0), gensub(/b(.)/, "<\\1>", "g", "abcbd"); exit 3 }'; echo "status $?"
