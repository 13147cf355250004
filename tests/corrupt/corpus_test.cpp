// Walks the table of hostile files: each must be refused as the table says, however its bytes are
// fed.
//
// Usage: corpus_test FOLDER. Prints the slowest files; the last line is "N passed, N failed".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "corrupt/judge.h"
#include "corrupt/table.h"
#include "support/temporary_folder.h"

#include "espalier/checkpoint_file.h"

namespace {

using namespace espalier;
using namespace espalier::testing;

// The same steps as judge(), for a file on disk.
Verdict judge_file(const std::filesystem::path& path, const Limits& limits, Access access) {
  auto file = CheckpointFile::open(path, {.access = access, .limits = limits, .threads = 2});
  if (!file) return {"open", std::move(file.error())};
  return judge_contents(file->checkpoint(), limits, file->verify(), file->load(file->state()),
                        file->load(file->metadata()));
}

// A file, and those beside and below it if it has a folder of its own.
OpenedFolder read_files(const std::filesystem::path& path, bool has_folder) {
  OpenedFolder read{path.filename().string(), {}};
  read.files[read.name] = read_whole(path);
  if (!has_folder) return read;
  const auto folder = path.parent_path();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    read.files[entry.path().lexically_relative(folder).generic_string()] = read_whole(entry.path());
  }
  return read;
}

class Walk {
 public:
  explicit Walk(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void visit(const TableRow& row) {
    const auto path = folder_ / "files" / row.file;
    check(row, "table", std::filesystem::exists(path) ? "" : "there is no such file");
    const OpenedFolder files = read_files(path, path.parent_path() != folder_ / "files");
    const auto start = std::chrono::steady_clock::now();
    for (const std::uint64_t step : {0u, 1000u, 7u}) {
      const std::string how = step == 0 ? "whole" : "by " + std::to_string(step) + " bytes";
      check(row, how, difference(row, judge(files, row.limits, step)));
    }
    check(row, "mapped", difference(row, judge_file(path, row.limits, Access::kMapped)));
    check(row, "read", difference(row, judge_file(path, row.limits, Access::kRead)));
    check(row, "over a network", difference(row, judge(files, row.limits, 0, true)));
    times_.push_back({std::chrono::steady_clock::now() - start, row.file});
    // Nothing but the limit was the reason, and it is not off by one.
    if (row.limited && row.code == "limit_exceeded") {
      const Verdict verdict = judge(files, row.eased, 0);
      check(row, "with one more", verdict.found_by == "opens" ? "" : verdict.error.describe());
    }
    codes_.insert(row.code);
  }

  // Every code for hostile input has a file, but for those that no bytes of a file can bring about.
  void check_codes() {
    for (std::uint16_t number = 1; number <= 22; ++number) {
      const auto code = static_cast<ErrorCode>(number);
      const bool possible = code != ErrorCode::kOutOfMemory &&
                            code != ErrorCode::kNotARegularFile &&
                            code != ErrorCode::kUnsupportedCodec;
      const std::string name(to_string(code));
      count(codes_.count(name) == (possible ? 1 : 0), "code " + name + " has no file, or has one");
    }
  }

  int finish() {
    std::sort(times_.rbegin(), times_.rend());
    times_.resize(std::min<std::size_t>(times_.size(), 5));
    for (const auto& [time, file] : times_) {
      const auto spent = std::chrono::duration<double, std::milli>(time).count();
      std::printf("%8.2f ms %s\n", spent, file.c_str());
    }
    std::printf("%zu passed, %zu failed\n", passed_, failed_);
    return failed_ == 0 && passed_ > 0 ? 0 : 1;
  }

 private:
  void check(const TableRow& row, const std::string& how, const std::string& wrong) {
    count(wrong.empty(), row.file + ", " + how + ": " + wrong);
  }
  void count(bool passed, const std::string& complaint) {
    ++(passed ? passed_ : failed_);
    if (!passed) std::printf("%s\n", complaint.c_str());
  }

  std::filesystem::path folder_;
  std::set<std::string> codes_;
  std::vector<std::pair<std::chrono::steady_clock::duration, std::string>> times_;
  std::size_t passed_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  const auto text = read_whole(folder / "table.txt");
  Walk walk(folder);
  for (const TableRow& row : parse_table(as_text(text))) walk.visit(row);
  walk.check_codes();
  return walk.finish();
}
