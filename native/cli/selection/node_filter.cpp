#include "cli/selection/node_filter.h"

#include "cli/opening/command.h"
#include "cli/terminal/text.h"
#include "espalier/base/near_miss.h"
#include "espalier/dtype.h"
#include "espalier/kind.h"

namespace espalier::cli {
namespace {

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (std::uint8_t i = 1; i <= kLastDType; ++i) {
    names.emplace_back(dtype_name(static_cast<DType>(i)));
  }
  return names;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (std::uint8_t i = 1; i <= kLastKind; ++i) {
    names.emplace_back(kind_name(static_cast<Kind>(i)));
  }
  return names;
}

// The bits of words: bit i + 1 for names[i], which has number i + 1.
std::uint64_t bits_of(const std::vector<std::string>& words,
                      const std::vector<std::string>& names) {
  std::uint64_t bits = 0;
  for (const std::string& word : words) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == word) bits |= std::uint64_t{2} << i;
    }
  }
  return bits;
}

CLI::Validator is_one_of(const char* what, std::vector<std::string> names) {
  return {[what, names = std::move(names)](std::string& word) -> std::string {
            if (bits_of({word}, names) != 0) return {};
            std::string message = std::string("there is no ") + what + " '" + word + "'";
            if (const auto meant = near_miss(word, names)) return message + did_you_mean(meant);
            message += "; there are";
            for (const std::string& name : names) message += " " + name;
            return message;
          },
          ""};
}

CLI::Validator is_size() {
  return {[](std::string& text) -> std::string {
            const auto size = parse_size(text);
            return size ? "" : size.error().message;
          },
          ""};
}

std::optional<std::uint64_t> size_of(const std::string& text) {
  const auto size = parse_size(text);
  return size && !text.empty() ? std::optional(*size) : std::nullopt;
}

}  // namespace

void add_filter_options(CLI::App& command, FilterOptions& options) {
  command
      .add_option("--dtype", options.dtypes, "Only tensors of these dtypes, for example bf16,f32")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(is_one_of("dtype", dtype_names()))
      ->type_name("DTYPE,...")
      ->group(kFilterGroup);
  command
      .add_option("--kind", options.kinds,
                  "Only nodes of these kinds, for example placeholder or int64,float64")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(is_one_of("kind", kind_names()))
      ->type_name("KIND,...")
      ->group(kFilterGroup);
  command
      .add_option("--larger", options.larger, "Only tensors with more bytes, for example 1.5MiB")
      ->check(is_size())
      ->type_name("SIZE")
      ->group(kFilterGroup);
  command.add_option("--smaller", options.smaller, "Only tensors with fewer bytes")
      ->check(is_size())
      ->type_name("SIZE")
      ->group(kFilterGroup);
}

NodeFilter::NodeFilter(const FilterOptions& options)
    : dtypes_(bits_of(options.dtypes, dtype_names())),
      kinds_(bits_of(options.kinds, kind_names())),
      larger_(size_of(options.larger)),
      smaller_(size_of(options.smaller)) {}

bool NodeFilter::wants_other_kinds() const {
  return (kinds_ & ~bits_of({"tensor", "placeholder"}, kind_names())) != 0;
}

bool NodeFilter::passes(const NodeRef& node) const {
  if (kinds_ != 0 && (kinds_ >> static_cast<unsigned>(node.kind()) & 1) == 0) return false;
  if (dtypes_ == 0 && !larger_ && !smaller_) return true;
  const auto tensor = node.tensor();
  if (!tensor) return false;
  if (dtypes_ != 0 && (dtypes_ >> static_cast<unsigned>(tensor->dtype()) & 1) == 0) return false;
  if (!larger_ && !smaller_) return true;
  if (tensor->is_placeholder()) return false;
  return (!larger_ || tensor->bytes() > *larger_) && (!smaller_ || tensor->bytes() < *smaller_);
}

}  // namespace espalier::cli
