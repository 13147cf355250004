#include "espalier/foreign/pickle/named_code.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

// What the work of comparing names may be, in bytes, for each byte of the pickle: a name of 8 KiB
// takes five bytes if its parts are in the memo.
constexpr std::uint64_t kMostNames = 64;
constexpr std::uint64_t kFreeNames = std::uint64_t{1} << 22;

// A name may have 8 KiB, and a message is a sentence.
std::string shown(const std::string& name) {
  constexpr std::size_t kMost = 256;
  return name.size() <= kMost ? name : name.substr(0, kMost) + "...";
}

}  // namespace

std::string_view module_of_global(PickleGlobal global) {
  if (global.module == "__builtin__") return "builtins";
  if (global.module == "copy_reg") return "copyreg";
  return global.module;
}

bool is_global(PickleGlobal global, std::string_view module, std::string_view name) {
  return global.name == name && module_of_global(global) == module;
}

Result<void> NamedCode::add(const PickleGraph& graph, const std::string& path) {
  const auto objects = static_cast<std::uint32_t>(graph.object_count());
  std::map<std::uint32_t, std::size_t> found;  // objects that name code, and their entries, plus 1
  std::uint64_t compared = 0;
  for (std::uint32_t number = 0; number < objects; ++number) {
    const PickleRef ref = PickleRef::object(number);
    if (graph.type(ref) != PickleType::kGlobal) continue;
    const PickleGlobal global = graph.global(ref);
    compared += global.module.size() + global.name.size();
    if (compared > kMostNames * graph.size() + kFreeNames) {
      return fail(ErrorCode::kLimitExceeded,
                  "names of classes in this pickle are used so often that reading it would take "
                  "too much");
    }
    if (is_data_(global)) continue;
    std::string name(module_of_global(global));
    Entry* const named = entry(name.append(1, '.').append(global.name));
    if (named != nullptr) {
      ++named->named;
      if (named->path.empty()) named->path = path;
    }
    const auto position =
        named == nullptr ? 0 : static_cast<std::size_t>(named - entries_.data()) + 1;
    found.emplace_hint(found.end(), number, position);
  }
  if (found.empty()) return {};
  const auto count_call = [&](PickleRef callable) {
    const auto named = graph.class_of(callable);
    const auto code = named ? found.find(named->number()) : found.end();
    if (code != found.end() && code->second != 0) ++entries_[code->second - 1].calls;
    return code != found.end();
  };
  for (std::uint32_t number = 0; number < objects; ++number) {
    const PickleRef ref = PickleRef::object(number);
    const PickleType type = graph.type(ref);
    if (type != PickleType::kCall && type != PickleType::kNew) continue;
    const PickleCall call = graph.call(ref);
    if (count_call(call.callable)) continue;
    // It makes an instance of its first argument.
    const auto named = graph.class_of(call.callable);
    const auto args = graph.tuple(call.args);
    if (!named || args.empty() || graph.global(*named).name != "_reconstructor") continue;
    count_call(args[0]);
  }
  return {};
}

NamedCode::Entry* NamedCode::entry(std::string_view name) {
  if (const auto known = numbers_.find(name); known != numbers_.end()) {
    return &entries_[known->second];
  }
  if (entries_.size() == Notes::kMaxListed) {
    ++others_;
    return nullptr;
  }
  numbers_.emplace(name, entries_.size());
  entries_.push_back({.name = std::string(name)});
  return &entries_.back();
}

void NamedCode::add_call(std::string_view name) {
  if (Entry* const called = entry(name)) ++called->shown;
}

bool NamedCode::wants_path(std::string_view name) const {
  const auto known = numbers_.find(name);
  return known != numbers_.end() && entries_[known->second].path.empty();
}

void NamedCode::set_path(std::string_view name, std::string path) {
  entries_[numbers_.find(name)->second].path = std::move(path);
}

std::optional<std::string> NamedCode::summary(bool calls) const {
  const auto counts = [&](const Entry& entry) { return !calls || entry.is_called(); };
  const auto first = std::find_if(entries_.begin(), entries_.end(), counts);
  if (first == entries_.end()) return std::nullopt;
  const auto more = std::count_if(first + 1, entries_.end(), counts);
  return shown(first->name) + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

void NamedCode::add_to(Notes& notes) const {
  for (const Entry& entry : entries_) {
    std::uint64_t times = entry.named;
    if (entry.is_called()) times = entry.calls > 0 ? entry.calls : entry.shown;
    notes.add({Note::Kind::kCode, entry.path,
               "Loading this with pickle would " +
                   std::string(entry.is_called() ? "call " : "import ") + shown(entry.name) +
                   (times > 1 ? ", " + std::to_string(times) + " times in all" : "") +
                   "; nothing was run."});
  }
  if (others_ > 0) {
    notes.add(
        {Note::Kind::kCode,
         {},
         "Loading this with pickle would import or call still other names; nothing was run."});
  }
}

}  // namespace espalier
