#include "cli/doctor/ignore_list.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/opening/key_maps.h"
#include "cli/opening/urls.h"
#include "cli/terminal/output.h"
#include "cli/terminal/text.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/base/near_miss.h"
#include "espalier/read/resolve_patterns.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIgnoreEnding = ".doctor-ignore";
constexpr const char* kIgnoreOption = "--ignore";
// Entries that a line about unmatched ones names.
constexpr std::size_t kToldEntries = 5;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Where the comment of a line begins; its end if it has none.
std::size_t comment_begin(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return i;
  }
  return line.size();
}

Result<HealthRule> rule_called(std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kHealthRules; ++i) {
    const auto rule = static_cast<HealthRule>(i);
    if (health_rule_name(rule) == name) return rule;
    names.emplace_back(health_rule_name(rule));
  }
  const auto meant = near_miss(name, names);
  return fail(ErrorCode::kInvalidArgument,
              "there is no rule '" + escaped(shortened(name, kMaxMentionBytes)) + "'" +
                  (meant ? did_you_mean(meant) : "; docs/health.md lists them, and * is any"));
}

bool selects(const Pattern& pattern, std::string_view path) {
  Pattern::State state = pattern.start();
  while (true) {
    if (pattern.accepts(state)) return true;
    if (state == 0 || path.empty()) return false;
    const std::size_t end = std::min(path.find('/'), path.size());
    state = pattern.step(state, path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
}

// Of two tensors that a finding is about, either: which of two copies came first is unknown.
bool is_about(const Finding& finding, const Pattern& pattern) {
  if (selects(pattern, finding.path)) return true;
  return finding.rule != HealthRule::kMissing && !finding.other.empty() &&
         selects(pattern, finding.other);
}

// The list in a file, which is one if it exists.
tl::expected<std::unique_ptr<IgnoreList>, Failure> read_list(const std::string& file) {
  auto text = read_text(file, kMaxIgnoreBytes);
  if (!text) return about(file, text);
  auto entries = parse_ignore_text(*text);
  if (!entries) return about(file, entries);
  auto list = std::make_unique<IgnoreList>();
  list->name = file;
  list->entries = std::move(*entries);
  return list;
}

// The file of entries beside a checkpoint; empty if there is none.
std::string file_beside(const std::string& file) {
  if (is_url(file)) return {};
  std::error_code error;
  fs::path path(file);
  if (!path.has_filename()) path = path.parent_path();
  fs::path own = path;
  own += kIgnoreEnding;
  if (fs::exists(fs::symlink_status(own, error))) return own.string();
  const fs::path folder = fs::is_directory(path, error) ? path : path.parent_path();
  fs::path of_all = folder / kIgnoreEnding;
  return fs::exists(fs::symlink_status(of_all, error)) ? of_all.string() : std::string();
}

}  // namespace

std::string IgnoreList::describe(const IgnoreEntry& entry) const {
  std::string text = escaped(shortened(entry.text, kMaxMentionBytes));
  if (entry.line > 0) text += fmt::format(" (line {} of {})", entry.line, escaped(name));
  return text;
}

Result<IgnoreEntry> parse_ignore_entry(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "'" + escaped(shortened(text, kMaxMentionBytes)) +
                    "' is no RULE:PATTERN, such as 'nan:model/head/**' or '*:tables'");
  }
  IgnoreEntry entry;
  entry.text = text;
  const std::string_view name = text.substr(0, colon);
  if (name != "*") {
    auto rule = rule_called(name);
    if (!rule) return propagate(rule);
    entry.rule = *rule;
  }
  auto pattern = parse_patterns(std::vector{std::string(text.substr(colon + 1))});
  if (!pattern) return propagate(pattern);
  entry.pattern = std::move(pattern->front());
  return entry;
}

Result<std::deque<IgnoreEntry>> parse_ignore_text(std::string_view text) {
  std::deque<IgnoreEntry> entries;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t comment = comment_begin(line);
    const std::string_view content = trimmed(line.substr(0, comment));
    if (content.empty()) continue;
    if (entries.size() == kMaxIgnoreEntries) {
      return fail(ErrorCode::kLimitExceeded,
                  fmt::format("has more than {} entries; use patterns", kMaxIgnoreEntries));
    }
    auto entry = parse_ignore_entry(content);
    if (!entry) {
      Error error = entry.error();
      error.message = fmt::format("line {}: {}", number, error.message);
      return tl::unexpected<Error>(std::move(error));
    }
    entry->line = number;
    if (comment < line.size()) entry->reason = trimmed(line.substr(comment + 1));
    entries.push_back(std::move(*entry));
  }
  return entries;
}

IgnoresOfFile::IgnoresOfFile(std::vector<IgnoreList*> lists, const NodeRef& root)
    : lists_(std::move(lists)) {
  for (IgnoreList* const list : lists_) {
    for (IgnoreEntry& entry : list->entries) {
      entries_.push_back({list, &entry});
      patterns_.push_back(entry.pattern);
    }
  }
  resolve_patterns(patterns_, {root});
}

std::optional<IgnoresOfFile::Match> IgnoresOfFile::first(const Finding& finding,
                                                         bool counts) const {
  std::optional<Match> found;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    IgnoreEntry& entry = *entries_[i].entry;
    const bool is_meant =
        entry.rule ? *entry.rule == finding.rule : finding.rule != HealthRule::kUnreadable;
    if (!is_meant || !is_about(finding, patterns_[i])) continue;
    if (!found) found = entries_[i];
    if (!counts) break;
    ++entry.matches;
  }
  return found;
}

tl::expected<void, Failure> IgnoreLists::add(const std::vector<std::string>& entries,
                                             const std::vector<std::string>& files) {
  auto options = std::make_unique<IgnoreList>();
  options->name = kIgnoreOption;
  for (const std::string& text : entries) {
    auto entry = parse_ignore_entry(text);
    if (!entry) return about(kIgnoreOption, entry);
    options->entries.push_back(std::move(*entry));
  }
  if (!entries.empty()) given_.push_back(std::move(options));
  for (const std::string& file : files) {
    auto list = read_list(file);
    if (!list) return tl::unexpected<Failure>(std::move(list.error()));
    given_.push_back(std::move(*list));
  }
  return {};
}

tl::expected<std::vector<IgnoreList*>, Failure> IgnoreLists::of(const std::string& file,
                                                                bool reads_beside) {
  std::vector<IgnoreList*> lists;
  for (const auto& list : given_) lists.push_back(list.get());
  const std::string name = reads_beside ? file_beside(file) : std::string();
  if (name.empty()) return lists;
  auto found = beside_.find(name);
  if (found == beside_.end()) {
    auto list = read_list(name);
    if (!list) {
      Failure failure = std::move(list.error());
      failure.error.message += "; --no-ignore-file examines without this file";
      return tl::unexpected<Failure>(std::move(failure));
    }
    (*list)->is_beside = true;
    found = beside_.emplace(name, std::move(*list)).first;
  }
  lists.push_back(found->second.get());
  return lists;
}

void IgnoreLists::tell_unmatched() const {
  const auto tell = [](const IgnoreList& list) {
    std::size_t count = 0;
    std::string named;
    for (const IgnoreEntry& entry : list.entries) {
      if (entry.matches > 0 || ++count > kToldEntries) continue;
      named += (named.empty() ? "" : ", ") + escaped(shortened(entry.text, kMaxMentionBytes));
      if (entry.line > 0) named += fmt::format(" (line {})", entry.line);
    }
    if (count == 0) return;
    if (count > kToldEntries) named += fmt::format(" and {} more", count - kToldEntries);
    print_error(fmt::format(
        "{}: {} no finding: {}", escaped(list.name),
        count == 1 ? "1 entry matches" : std::to_string(count) + " entries match", named));
  };
  for (const auto& list : given_) tell(*list);
  for (const auto& [name, list] : beside_) tell(*list);
}

}  // namespace espalier::cli
