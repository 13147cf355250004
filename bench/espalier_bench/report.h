// The output of a command: one JSON object on one line.
#ifndef ESPALIER_BENCH_REPORT_H_
#define ESPALIER_BENCH_REPORT_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace espalier::bench {

using Samples = std::vector<std::uint64_t>;

class Report {
 public:
  explicit Report(const std::string& command)
      : text_(fmt::format(R"({{"command":"{}")", command)) {}
  Report(const std::string& command, const std::string& file)
      : text_(fmt::format(R"({{"command":"{}","file":"{}")", command, file)) {}

  /// `value` must need no escapes.
  Report& with(const char* name, const std::string& value) {
    return add(name, fmt::format(R"("{}")", value));
  }
  Report& with(const char* name, bool value) { return add(name, value ? "true" : "false"); }
  Report& with(const char* name, double value) { return with(std::string(name), value); }
  template <std::integral T>
  Report& with(const char* name, T value) {
    return add(name, std::to_string(value));
  }
  Report& with(const std::string& name, const Samples& samples) {
    return add(name, fmt::format("[{}]", fmt::join(samples, ",")));
  }
  Report& with(const std::string& name, double value) {
    return add(name, fmt::format("{:.3f}", value));
  }
  void print() const { fmt::print("{}}}\n", text_); }

 private:
  Report& add(const std::string& name, const std::string& value) {
    text_ += fmt::format(R"(,"{}":{})", name, value);
    return *this;
  }

  std::string text_;
};

}  // namespace espalier::bench

#endif  // ESPALIER_BENCH_REPORT_H_
