#include "espalier/health/kinds.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"

namespace espalier {
namespace {

// Marks for what is left open, which are in no UTF-8.
constexpr char kOpenNumber = '\xff';
constexpr char kOpenWord = '\xfe';
// Numbers or segments of a path that are tried: a hostile path has hundreds.
constexpr std::size_t kMostOpen = 16;

using Part = std::pair<std::size_t, std::size_t>;  // begin and end
using Sizes = std::unordered_map<std::uint64_t, std::size_t>;

bool is_number(char c) { return c >= '0' && c <= '9'; }
bool is_separator(char c) { return c == '/' || c == '.'; }

// Finds the parts of a path, of which `begins` and `ends` tell by character.
template <class IsInside>
void find_parts(std::string_view path, IsInside is_inside, std::vector<Part>& parts) {
  parts.clear();
  for (std::size_t at = 0; at < path.size() && parts.size() < kMostOpen;) {
    if (!is_inside(path[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    while (at < path.size() && is_inside(path[at])) ++at;
    parts.emplace_back(begin, at);
  }
}

std::uint64_t id_of(std::string_view text) { return hash64(as_bytes(text)); }

// The template with one part left open.
std::uint64_t opened(std::string_view path, const Part& part, char mark, std::string& buffer) {
  buffer.assign(path.substr(0, part.first));
  buffer += mark;
  buffer += path.substr(part.second);
  return id_of(buffer);
}

std::uint64_t all_opened(std::string_view path, std::string& buffer) {
  buffer.clear();
  for (const char c : path) {
    if (!is_number(c)) {
      buffer += c;
    } else if (buffer.empty() || buffer.back() != kOpenNumber) {
      buffer += kOpenNumber;
    }
  }
  return id_of(buffer);
}

// Whether a number is that of a tensor, as in "p0": it then counts most tensors, and no kind.
bool counts_all(std::string_view path, std::size_t count, std::size_t all) {
  return std::none_of(path.begin(), path.end(), is_separator) && 2 * count > all;
}

// The templates of each path, one after the other.
class Templates {
 public:
  void add(std::uint64_t id) {
    ids_.push_back(id);
    ++sizes_[id];
  }
  void end_path() { ends_.push_back(ids_.size()); }
  std::span<const std::uint64_t> of(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::span(ids_).subspan(begin, ends_[i] - begin);
  }
  std::size_t size(std::uint64_t id) const { return sizes_.at(id); }
  // The first of the largest.
  std::uint64_t largest(std::span<const std::uint64_t> ids) const {
    return *std::max_element(ids.begin(), ids.end(), [this](std::uint64_t a, std::uint64_t b) {
      return size(a) < size(b);
    });
  }

 private:
  std::vector<std::uint64_t> ids_;
  std::vector<std::size_t> ends_;
  Sizes sizes_;
};

}  // namespace

std::vector<PathKind> find_kinds(std::span<const std::string_view> paths) {
  std::string buffer;
  std::vector<Part> parts;
  Templates numbers;
  for (const std::string_view path : paths) {
    find_parts(path, is_number, parts);
    for (const Part& part : parts) numbers.add(opened(path, part, kOpenNumber, buffer));
    if (parts.size() > 1) numbers.add(all_opened(path, buffer));
    numbers.end_path();
  }
  std::vector<PathKind> kinds(paths.size());
  std::vector<std::size_t> lone;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto ids = numbers.of(i);
    if (ids.empty()) {
      kinds[i].id = id_of(paths[i]);
      lone.push_back(i);
      continue;
    }
    const auto single = ids.first(ids.size() > 1 ? ids.size() - 1 : 1);
    const std::uint64_t best = numbers.largest(single);
    if (counts_all(paths[i], numbers.size(best), paths.size())) {
      kinds[i].id = id_of(paths[i]);
      continue;
    }
    kinds[i].id = numbers.size(best) >= kSiblings ? best : ids.back();
    if (numbers.size(kinds[i].id) < kSiblings) lone.push_back(i);
  }
  Templates words;
  for (const std::size_t i : lone) {
    find_parts(
        paths[i], [](char c) { return !is_separator(c); }, parts);
    // A path of one segment is like every other of one.
    if (parts.size() > 1) {
      for (const Part& part : parts) words.add(opened(paths[i], part, kOpenWord, buffer));
    }
    words.end_path();
  }
  for (std::size_t at = 0; at < lone.size(); ++at) {
    const auto ids = words.of(at);
    if (ids.empty()) continue;
    const std::uint64_t best = words.largest(ids);
    if (words.size(best) >= kSiblings) kinds[lone[at]] = {best, true, best == ids.back()};
  }
  return kinds;
}

}  // namespace espalier
