#include "espalier/format/file_table.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/merge_sort.h"
#include "espalier/codec/hash.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/header.h"

namespace espalier {
namespace {

char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; }

// Whether `a` comes before `b`, in any case.
bool comes_before(std::string_view a, std::string_view b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](char x, char y) { return lowered(x) < lowered(y); });
}

bool is_equal(std::string_view a, std::string_view b) {
  return !comes_before(a, b) && !comes_before(b, a);
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (lowered(c) >= 'a' && lowered(c) <= 'z');
}

// CON, NUL, COM1 and the like are devices on Windows in every folder and with any ending.
bool is_device(std::string_view name) {
  const std::string_view stem = name.substr(0, name.find('.'));
  const bool is_numbered = stem.size() == 4 && stem.back() >= '0' && stem.back() <= '9';
  for (const std::string_view device : {"con", "prn", "aux", "nul", "com", "lpt"}) {
    const bool has_number = device == "com" || device == "lpt";
    if (has_number == is_numbered && is_equal(stem.substr(0, has_number ? 3 : 4), device))
      return true;
  }
  return false;
}

// The name of a record, if it is in the pool, which is not validated yet.
std::optional<std::string_view> name_in_pool(const Tables& t, std::uint32_t text) {
  if (text >= t.text_ends.size()) return std::nullopt;
  const std::uint32_t begin = text == 0 ? 0 : t.text_ends[text - 1];
  const std::uint32_t end = t.text_ends[text];
  if (begin > end || end > t.text.size()) return std::nullopt;
  return std::string_view(t.text.data() + begin, end - begin);
}

}  // namespace

bool is_file_label(std::string_view name) {
  if (name.empty() || name.size() > kMaxFileNameBytes) return false;
  if (name.front() == '.' || name.front() == '-' || name.back() == '.') return false;
  return !is_device(name) && std::all_of(name.begin(), name.end(), [](char c) {
    return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
  });
}

Result<void> check_file_table(const Tables& tables, const std::byte* index) {
  std::string_view defect;
  const FileRecord* at = tables.files.data();
  for (std::size_t i = 0; i < tables.files.size() && defect.empty(); ++i) {
    at = &tables.files[i];
    const auto name = name_in_pool(tables, at->name);
    // The pool is sorted, so ascending numbers are ascending names. "../../.ssh/id_rsa", "CON" and
    // the like must never reach a file system.
    if (!name || (i > 0 && at->name <= tables.files[i - 1].name) || !is_file_label(*name)) {
      defect = "the name of a further file is not one that a file may have, or is out of order";
    } else if (at->head == 0 || at->head > kMaxHeadBytes || at->head > at->length) {
      defect = "the head of a further file has the wrong length";
    }
  }
  if (defect.empty() && tables.files.size() > kMaxFiles) {
    defect = "the file has bytes in more than 65534 further files";
  }
  if (defect.empty()) {
    std::vector<std::uint32_t> order(tables.files.size());
    std::iota(order.begin(), order.end(), 1u);
    sort_numbers(order, [&](std::uint32_t a, std::uint32_t b) {
      return comes_before(file_name(tables, a), file_name(tables, b));
    });
    for (std::size_t i = 1; i < order.size() && defect.empty(); ++i) {
      if (!is_equal(file_name(tables, order[i - 1]), file_name(tables, order[i]))) continue;
      at = &tables.files[order[i] - 1];
      defect = "two files have names that differ only in case";
    }
  }
  if (defect.empty()) return {};
  const auto offset = reinterpret_cast<const std::byte*>(at) - index;
  return fail(ErrorCode::kIndexInvalid, std::string(defect),
              kHeaderBytes + static_cast<std::uint64_t>(offset));
}

std::string_view file_name(const Tables& tables, std::size_t file) {
  return table_text(tables, tables.files[file - 1].name);
}

FileSet file_set(const Tables& tables, FileEntry first) {
  FileSet files;
  files.push_back(std::move(first));
  for (std::size_t i = 1; i <= tables.files.size(); ++i) {
    files.push_back(
        {.name = std::string(file_name(tables, i)), .length = tables.files[i - 1].length});
  }
  return files;
}

bool is_other_file(const FileRecord& record, ByteSpan head) {
  return hash128(head) != record.head_hash;
}

Error base_mismatch(const Tables& tables, std::size_t file) {
  return {
      ErrorCode::kBaseMismatch,
      Error::kNoOffset,
      {},
      "the file is not the one that the checkpoint was made with: its length or its first bytes "
      "differ; find that file, or make the checkpoint anew",
      std::string(file_name(tables, file))};
}

}  // namespace espalier
