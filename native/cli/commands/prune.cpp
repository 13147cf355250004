// espalier prune: removes checkpoints of a folder that no rule keeps and no other one needs.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/opening/command.h"
#include "cli/selection/natural_order.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/text.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/file_sink.h"
#include "espalier/foreign/common/flatten.h"
#include "espalier/format/format_info.h"
#include "espalier/format/header.h"
#include "files/folder/needed_files.h"
#include "files/open/checkpoint_folder.h"
#include "files/os/folder_files.h"
#include "files/os/folder_lock.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

// A save may be about to refer to a file: see CheckpointDir.
constexpr auto kYoung = std::chrono::hours(1);

struct PruneOptions {
  CommonOptions common;
  std::string folder;
  std::size_t last = 0;
  std::uint64_t every = 0;
  std::vector<std::string> patterns;
  bool deletes = false;
};

// A checkpoint of the folder.
struct Candidate {
  std::string name;
  std::uint64_t bytes = 0;
  std::pair<dev_t, ino_t> identity;
  bool is_young = false;
  std::string_view kept_by = {};  // empty: it goes
};

Failure failure_of(const std::string& name, ErrorCode code, std::string_view message) {
  return {name, {code, Error::kNoOffset, {}, message}};
}

// The last number in a name, such as that of the step.
std::optional<std::uint64_t> number_in(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto end = std::find_if(name.rbegin(), name.rend(), is_digit).base();
  auto begin = end;
  while (begin != name.begin() && is_digit(*std::prev(begin))) --begin;
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(&*name.begin() + (begin - name.begin()),
                                      &*name.begin() + (end - name.begin()), number);
  if (begin == end || parsed.ec != std::errc()) return std::nullopt;
  return number;
}

// The Espalier files of the folder, in the order of the numbers in their names. A file that cannot
// be read is an error: nobody knows what it needs. One of another format, whatever its name, is
// none of them.
tl::expected<std::vector<Candidate>, Failure> find_candidates(const fs::path& folder,
                                                              const CommonOptions& common) {
  const auto names = list_folder(folder);
  if (!names) return tl::unexpected<Failure>({folder.string(), names.error()});
  std::vector<Candidate> candidates;
  for (const std::string& name : *names) {
    struct stat status = {};
    const fs::path path = folder / name;
    // A link is no checkpoint of its own, and what it leads to has a name as well.
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (name.starts_with(".espalier-") || status.st_size == 0) continue;
    const bool is_named_so = name.ends_with(".espalier");
    const auto source = open_source(path, Access::kRead);
    if (!source) return tl::unexpected<Failure>({path.string(), source.error()});
    std::vector<std::byte> front(std::min<std::uint64_t>((*source)->size(), 8));
    if (auto ok = (*source)->copy({0, 0, front.size()}, front); !ok) {
      return tl::unexpected<Failure>({path.string(), ok.error()});
    }
    if (!has_magic(front) && !is_named_so) continue;
    CommonOptions read = common;
    read.no_mmap = true;
    const auto file = open_file(path.string(), read);
    if (!file) {
      Error error = file.error();
      error.message += "; nothing was removed, because it is unknown what this file needs";
      return tl::unexpected<Failure>({path.string(), std::move(error)});
    }
    const FormatInfo& format = file->checkpoint().catalog().format();
    if (format != kEspalierFormat) {
      if (!common.quiet) {
        print_error(fmt::format("{}: this is no Espalier file ({}), and stays",
                                escaped(path.string()), format.title));
      }
      continue;
    }
    const auto age =
        std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(status.st_mtime);
    candidates.push_back({name,
                          static_cast<std::uint64_t>(status.st_size),
                          {status.st_dev, status.st_ino},
                          age < kYoung});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return compare_naturally(a.name, b.name) < 0;
  });
  return candidates;
}

// A pattern that matches nothing is a slip, and would remove what it was to keep.
tl::expected<void, Failure> check_patterns(const PruneOptions& options, const fs::path& folder) {
  const auto names = list_folder(folder);
  if (!names) return tl::unexpected<Failure>({folder.string(), names.error()});
  for (const std::string& pattern : options.patterns) {
    const bool matches = std::any_of(names->begin(), names->end(), [&](const std::string& name) {
      return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    });
    if (matches) continue;
    return tl::unexpected<Failure>(failure_of(options.folder, ErrorCode::kInvalidArgument,
                                              "nothing there has a name like --keep " + pattern +
                                                  "; nothing was removed. Correct the pattern"));
  }
  return {};
}

tl::expected<void, Failure> check_some_stay(const PruneOptions& options,
                                            const std::vector<Candidate>& candidates) {
  const bool all_go = !candidates.empty() &&
                      std::all_of(candidates.begin(), candidates.end(),
                                  [](const Candidate& each) { return each.kept_by.empty(); });
  if (!all_go) return {};
  return tl::unexpected<Failure>(
      failure_of(options.folder, ErrorCode::kInvalidArgument,
                 "the rules keep no checkpoint at all; nothing was removed. Add --keep-last 1"));
}

// Keeps what links of the folder lead to: people name the best or the latest so.
tl::expected<void, Failure> keep_linked(const fs::path& folder,
                                        std::vector<Candidate>& candidates) {
  const auto names = list_folder(folder);
  if (!names) return tl::unexpected<Failure>({folder.string(), names.error()});
  for (const std::string& name : *names) {
    std::error_code ignored;
    struct stat status = {};
    if (!fs::is_symlink(folder / name, ignored)) continue;
    if (::stat((folder / name).c_str(), &status) != 0) continue;
    for (Candidate& each : candidates) {
      const bool is_it = each.identity == std::pair(status.st_dev, status.st_ino);
      if (is_it && each.kept_by.empty()) each.kept_by = "a link leads to it";
    }
  }
  return {};
}

void apply_rules(const PruneOptions& options, std::vector<Candidate>& candidates) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& each = candidates[i];
    const auto number = number_in(each.name);
    if (each.name == kDistributedRoot) {
      each.kept_by = "the folder opens by it";
    } else if (candidates.size() - i <= options.last) {
      each.kept_by = "one of the last";
    } else if (options.every != 0 && number && *number % options.every == 0) {
      each.kept_by = "its number";
    } else if (std::any_of(options.patterns.begin(), options.patterns.end(),
                           [&](const std::string& pattern) {
                             return ::fnmatch(pattern.c_str(), each.name.c_str(), 0) == 0;
                           })) {
      each.kept_by = "--keep";
    } else if (each.is_young) {
      each.kept_by = "younger than an hour";
    }
  }
}

// Keeps what a kept file names. A name may be that of a link, so it is the file itself that counts.
tl::expected<void, Failure> keep_needed(const fs::path& folder,
                                        std::vector<Candidate>& candidates) {
  std::set<std::string> leaving;
  for (const Candidate& each : candidates) {
    if (each.kept_by.empty()) leaving.insert(each.name);
  }
  // What stays because it is needed stays whole: it needs files, too.
  for (bool is_stable = false; !is_stable;) {
    const auto needed = needed_files(folder, leaving);
    if (!needed) return tl::unexpected<Failure>({folder.string(), needed.error()});
    std::set<std::pair<dev_t, ino_t>> identities;
    for (const std::string& name : *needed) {
      struct stat status = {};
      if (::stat((folder / name).c_str(), &status) == 0) {
        identities.insert({status.st_dev, status.st_ino});
      }
    }
    is_stable = true;
    for (Candidate& each : candidates) {
      if (!each.kept_by.empty() || !identities.contains(each.identity)) continue;
      each.kept_by = "needed";
      leaving.erase(each.name);
      is_stable = false;
    }
  }
  return {};
}

void report(Output& out, const PruneOptions& options, const std::vector<Candidate>& candidates) {
  std::uint64_t gone = 0;
  std::uint64_t gone_bytes = 0;
  std::uint64_t needed = 0;
  std::uint64_t needed_bytes = 0;
  for (const Candidate& each : candidates) {
    if (each.kept_by.empty()) {
      ++gone;
      gone_bytes += each.bytes;
    } else if (each.kept_by == "needed") {
      ++needed;
      needed_bytes += each.bytes;
    }
  }
  if (options.common.json) {
    JsonWriter json(out);
    json.begin_object();
    json.key("files");
    json.begin_array();
    for (const Candidate& each : candidates) {
      json.begin_object();
      json.member("file", std::string_view(each.name));
      json.member("bytes", each.bytes);
      json.member("removed", each.kept_by.empty());
      json.member("kept_by", each.kept_by);
      json.end_object();
    }
    json.end_array();
    json.member("dry_run", !options.deletes);
    json.member("bytes_removed", gone_bytes);
    json.member("bytes_needed", needed_bytes);
    json.end_object();
    out.put('\n');
    return;
  }
  for (const Candidate& each : candidates) {
    if (!each.kept_by.empty() && options.common.quiet) continue;
    out.print("{:<6}  {:>10}  {}{}\n", each.kept_by.empty() ? "remove" : "keep",
              format_size(each.bytes), escaped(each.name),
              each.kept_by.empty() ? std::string() : " (" + std::string(each.kept_by) + ")");
  }
  if (options.common.quiet) return;
  out.print("{} of {} {}removed, {}\n", counted(gone, "file"), candidates.size(),
            options.deletes ? "" : "would be ", format_size(gone_bytes));
  if (needed > 0) {
    out.print(
        "{} ({}) only because others need {}; `espalier fold` or `flatten` of those frees {}\n",
        needed == 1 ? "1 file stays" : counted(needed, "file") + " stay", format_size(needed_bytes),
        needed == 1 ? "it" : "them", needed == 1 ? "it" : "them");
  }
  if (!options.deletes && gone > 0) out.print("nothing was removed; --delete does it\n");
}

Outcome run_prune(const PruneOptions& options, Output& out) {
  const fs::path folder(options.folder);
  std::optional<FolderLock> lock;
  if (options.deletes) {
    auto locked = FolderLock::try_exclusive(folder);
    if (!locked) return about(options.folder, locked);
    if (!*locked) {
      return tl::unexpected<Failure>(
          failure_of(options.folder, ErrorCode::kFileExists,
                     "a program saves to this folder at this moment; try again later"));
    }
    lock = std::move(**locked);
  }
  auto candidates = find_candidates(folder, options.common);
  if (!candidates) return tl::unexpected<Failure>(candidates.error());
  if (auto ok = check_patterns(options, folder); !ok) {
    return tl::unexpected<Failure>(ok.error());
  }
  apply_rules(options, *candidates);
  if (auto ok = keep_linked(folder, *candidates); !ok) return tl::unexpected<Failure>(ok.error());
  if (auto ok = check_some_stay(options, *candidates); !ok) {
    return tl::unexpected<Failure>(ok.error());
  }
  if (auto ok = keep_needed(folder, *candidates); !ok) return tl::unexpected<Failure>(ok.error());
  if (options.deletes) {
    if (auto ok = remove_dead_temporary_files(folder); !ok) return about(options.folder, ok);
    // The newest first, so that what is left after a failure needs nothing that is gone.
    for (auto each = candidates->rbegin(); each != candidates->rend(); ++each) {
      if (!each->kept_by.empty()) continue;
      std::error_code error;
      fs::remove(folder / each->name, error);
      if (error) {
        return tl::unexpected<Failure>(failure_of((folder / each->name).string(),
                                                  ErrorCode::kIoError,
                                                  "cannot remove it: " + error.message()));
      }
    }
  }
  report(out, options, *candidates);
  return ExitCode::kOk;
}

// CLI::PositiveNumber prints the largest double.
CLI::Validator at_least_one() {
  return CLI::Validator(
      [](std::string& text) {
        return text.find_first_not_of('0') == std::string::npos ? "it must be at least 1"
                                                                : std::string();
      },
      "");
}

}  // namespace

void add_prune(CLI::App& app, Action& action) {
  auto options = std::make_shared<PruneOptions>();
  CLI::App* command = app.add_subcommand(
      "prune",
      "Remove checkpoints of a folder that no rule keeps and no other one needs; without --delete, "
      "only tell which");
  command
      ->add_option("FOLDER", options->folder,
                   "Its Espalier files, in the order of the numbers in their names. Files younger "
                   "than an hour stay. If one of them cannot be read, nothing is removed")
      ->required();
  command->add_option("--keep-last", options->last, "Keep the last N")
      ->type_name("N")
      ->check(at_least_one());
  command
      ->add_option("--keep-every", options->every,
                   "Keep those with a multiple of N as the last number in their name")
      ->type_name("N")
      ->check(at_least_one());
  command
      ->add_option("--keep", options->patterns,
                   "Keep files with a name like this, with * and ?. May be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command->add_flag("--delete", options->deletes, "Remove the files");
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines about files that stay");
  set_examples(*command, {"espalier prune run --keep-last 3 --keep-every 1000",
                          "espalier prune run --keep-last 3 --keep 'best*' --delete"});
  command->callback([options, &action] {
    if (options->last == 0 && options->every == 0 && options->patterns.empty()) {
      throw CLI::ValidationError("prune", "say what to keep: --keep-last, --keep-every or --keep");
    }
    action = [options](Output& out) { return run_prune(*options, out); };
  });
}

}  // namespace espalier::cli
