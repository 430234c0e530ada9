# needs: cmake ninja clang ld.lld
# package: cmake ninja-build clang lld
# time: 600
# when: all
# ignore: b
mkdir src; for i in $(seq 12); do echo "int f$i(int x) { int s = 0; for (int i = 0; i < x; i++) s += i % $i; return s; }" > src/f$i.c; done
{ for i in $(seq 12); do echo "int f$i(int);"; done; echo '#include <cstdio>
#include <map>
#include <string>
int main() { std::map<std::string, int> m; int s = 0;'; for i in $(seq 12); do echo "s += m[\"f$i\"] = f$i($i * 10);"; done; echo 'printf("%d %zu\n", s, m.size()); return s != m["f1"] + s; }'; } > src/main.cc
cat > CMakeLists.txt <<'X'
cmake_minimum_required(VERSION 3.13)
project(p C CXX)
file(GLOB f src/f*.c)
add_library(l STATIC ${f})
add_executable(m src/main.cc)
target_link_libraries(m l)
enable_testing()
add_test(NAME t COMMAND m)
X
cmake -G Ninja -B b -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld . | grep -vE 'Detecting|Check for'
ninja -C b -j 3 | tail -1 | sed 's/.*\] //'; ./b/m; echo "status $?"
(cd b && ctest 2>&1 | grep 'tests passed'); ninja -C b | tail -1
