// --cast: converts selected tensors to another floating-point type while they are written.
#ifndef ESPALIER_CLI_WRITING_CAST_H_
#define ESPALIER_CLI_WRITING_CAST_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "espalier/error.h"
#include "espalier/value.h"

namespace espalier::cli {

/// Casts tensors one after the other, and counts what it does. Tensors of real floating-point types
/// get the new type; all others stay as they are, like the int buffers of a model that frameworks
/// cast. Not thread-safe, but the tensors that it returns are.
class Cast {
 public:
  /// `dtype` is the value of --cast; empty for no cast.
  explicit Cast(const std::string& dtype);

  /// The tensor with elements of the new type, which are made when they are read. Reading each once
  /// keeps the counts right. Takes memory for a chunk, whatever the size of the tensor.
  [[nodiscard]] Result<Tensor> apply(Tensor tensor);

  /// kInvalidArgument if there is a cast and it concerns none of the tensors.
  [[nodiscard]] Result<void> check_used() const;

  /// Says which tensors were not cast, and how many numbers became infinite. Call it after the
  /// tensors were written. Prints nothing without --cast.
  void print(Output& out) const;
  /// The member `cast`: an object with `dtype`, `tensors`, `not_cast` (numbers of tensors by dtype)
  /// and `became_infinite`; nothing without --cast.
  void write_member(JsonWriter& json) const;

 private:
  std::string not_cast_text() const;

  std::optional<DType> to_;
  std::uint64_t cast_ = 0;
  std::map<std::string, std::uint64_t> not_cast_;  // tensors by dtype
  std::shared_ptr<std::atomic<std::uint64_t>> overflows_;
};

/// Adds --cast.
void add_cast_option(CLI::App& command, std::string& dtype);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITING_CAST_H_
