# needs: ghc
# package: ghc
# time: 900
# when: all
# ignore: .
# A compiler of Haskell, what it makes with green threads on two cores, and its interpreter.
cat > a.hs <<'Y'
import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.Map.Strict as M
import System.Exit
main :: IO ()
main = do
  let m = M.fromListWith (+) [(i `mod` 97, i) | i <- [1 .. 20000 :: Int]]
  print (M.foldl' (+) 0 m, M.lookup 13 m)
  boxes <- forM [1 .. 200 :: Int] $ \i -> do
    box <- newEmptyMVar
    _ <- forkIO (yield >> putMVar box (sum [i .. i + 500]))
    return box
  mapM takeMVar boxes >>= print . sum
  r <- try (evaluate (1 `div` (0 :: Int))) :: IO (Either ArithException Int)
  print r
  s <- try (evaluate (head ([] :: [Int]))) :: IO (Either SomeException Int)
  putStrLn (either (const "no head") show s)
  print (2 ^ (3000 :: Int) `mod` (10 ^ (20 :: Int) + 39 :: Integer))
  exitWith (ExitFailure 3)
Y
ghc -v0 -O1 -threaded -rtsopts a.hs -o a; echo "compiled $?"
./a; echo "status $?"
./a +RTS -N2 -RTS; echo "status $?"
echo ':{
let f :: Int -> Int
    f n = if n < 2 then n else f (n - 1) + f (n - 2)
:}
print (map f [1 .. 15])' | ghc -v0 --interactive -ignore-dot-ghci; echo "status $?"
