#include "files/os/parallel.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "files/os/call_scope.h"
#include "files/os/pool.h"

namespace espalier {
namespace {

TEST_CASE("a pool lends what a thread that is gone gave back") {
  std::atomic<int> made = 0;
  Pool<int> pool([&] { return std::make_unique<int>(++made); });
  for (int i = 0; i < 40; ++i) std::thread([&] { pool.borrow(); }).join();
  CHECK_EQ(made, 1);
}

TEST_CASE("a pool lends each object to one thread at a time") {
  struct Lent {
    std::atomic<bool> is_lent = false;
  };
  constexpr int kThreads = 20;  // more than there are slots
  Pool<Lent> pool;
  std::atomic<int> lent_twice = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto first = pool.borrow();
        const auto second = pool.borrow();
        for (Lent* each : {first.get(), second.get()})
          lent_twice += each->is_lent.exchange(true) ? 1 : 0;
        for (Lent* each : {first.get(), second.get()}) each->is_lent = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(lent_twice, 0);
}

TEST_CASE("Every index is given once, to a worker that is alone with its number") {
  for (const unsigned threads : {0u, 1u, 2u, 8u, 64u}) {
    for (const std::size_t count : {0u, 1u, 7u, 1000u}) {
      std::vector<std::atomic<int>> calls(count);
      std::vector<std::atomic<int>> busy(thread_count(threads));
      std::atomic<bool> is_shared = false;
      const auto done = parallel_for(count, threads, [&](unsigned worker, std::size_t i) {
        if (worker >= busy.size() || busy[worker].fetch_add(1) != 0) is_shared = true;
        ++calls[i];
        if (worker < busy.size()) --busy[worker];
        return Result<void>();
      });
      CHECK(done);
      CHECK_FALSE(is_shared);
      for (const auto& call : calls) CHECK(call == 1);
    }
  }
}

TEST_CASE("The error of the lowest index wins, on any number of threads") {
  for (const unsigned threads : {1u, 2u, 8u}) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<bool> begun = false;
      const auto done = parallel_for(100, threads, [&](unsigned, std::size_t i) -> Result<void> {
        if (i < 10) return {};
        if (i == 11) begun = true;
        while (i == 10 && threads > 1 && !begun) std::this_thread::yield();
        // The others fail before the lowest one in some rounds, and after it in the rest.
        if ((i == 10) == (round % 2 == 0))
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return fail(ErrorCode::kIoError, std::to_string(i));
      });
      REQUIRE_FALSE(done);
      CHECK(done.error().message == "10");
    }
  }
}

TEST_CASE("No task begins after an error") {
  std::atomic<int> calls = 0;
  const auto done = parallel_for(1'000'000, 2, [&](unsigned, std::size_t) -> Result<void> {
    ++calls;
    return fail(ErrorCode::kIoError, "no");
  });
  CHECK_FALSE(done);
  CHECK(calls <= 2);
}

TEST_CASE("Memory that runs out in a task is an error") {
  for (const unsigned threads : {1u, 2u}) {
    const auto done = parallel_for(10, threads, [&](unsigned, std::size_t i) -> Result<void> {
      if (i == 3) throw std::bad_alloc();
      return {};
    });
    REQUIRE_FALSE(done);
    CHECK(done.error().code == ErrorCode::kOutOfMemory);
  }
}

TEST_CASE("An exception of a task reaches the caller") {
  for (const unsigned threads : {1u, 2u}) {
    std::atomic<int> running = 0;
    const auto run = [&] {
      return parallel_for(1000, threads, [&](unsigned, std::size_t i) -> Result<void> {
        ++running;
        if (i == 3) {
          --running;
          throw std::runtime_error("of the caller's own");
        }
        --running;
        return {};
      });
    };
    CHECK_THROWS_WITH_AS(static_cast<void>(run()), "of the caller's own", std::runtime_error);
    CHECK(running == 0);
  }
}

TEST_CASE("The threads of a call know the flag that cancels it") {
  const std::atomic<bool> flag = true;
  std::atomic<int> begun = 0;
  std::atomic<int> cancelled = 0;
  {
    const CallScope scope(&flag);
    const auto done = parallel_for(2, 2, [&](unsigned, std::size_t) {
      ++begun;
      while (begun < 2) std::this_thread::yield();  // Each task is on a thread of its own.
      if (CallScope::is_cancelled()) ++cancelled;
      return Result<void>();
    });
    CHECK(done);
    const CallScope none(nullptr);
    CHECK_FALSE(CallScope::is_cancelled());
  }
  CHECK(cancelled == 2);
  CHECK(CallScope::current() == nullptr);
}

TEST_CASE("Zero threads means every CPU") {
  CHECK(thread_count(3) == 3);
  CHECK(thread_count(0) >= 1);
}

}  // namespace
}  // namespace espalier
