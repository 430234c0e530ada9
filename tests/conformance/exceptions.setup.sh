g++ -O1 -pthread -o exceptions "$PROGRAMS/exceptions.cpp"
