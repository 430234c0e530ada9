# needs: java javac
# time: 300
# ignore: .
cp "$PROGRAMS/Threads.java" . && javac Threads.java && java -Xmx256m -XX:-UsePerfData Threads
