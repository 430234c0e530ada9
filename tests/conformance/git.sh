# needs: git
set -e
export HOME=$PWD GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' GIT_CONFIG_NOSYSTEM=1
git config --global user.name n; git config --global user.email e@example.org; git config --global init.defaultBranch main; git config --global gc.auto 0; git config --global core.fsync none; git config --global pack.threads 2
git init -q r; cd r
for i in $(seq 25); do seq "$i" $((i * 40)) > "f$((i % 7))"; mkdir -p d; echo "$i" >> d/log; git add .; git commit -qm "c$i"; done
git branch side HEAD~5; git checkout -q side; echo x > side; git add side; git commit -qm side; git checkout -q main; git merge -q -m merged side
git log --oneline --graph | head -n 8; git diff --stat HEAD~3; git blame d/log | tail -n 2 | cut -c1-8; cd ..
git clone -q r c; cd c; git gc -q --prune=now; git fsck --strict; git count-objects -v | grep -E 'in-pack|packs|garbage'; git rev-parse HEAD; git status --porcelain; git grep -c 39 | head -n 3; git stash list; git archive HEAD | sha256sum
rm -rf .git/objects ../r/.git/objects ../r/.git/index .git/index .git/logs ../r/.git/logs
