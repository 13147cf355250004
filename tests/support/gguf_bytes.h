// GGUF headers, made number by number, so that each of them can be wrong.
#ifndef ESPALIER_TESTS_SUPPORT_GGUF_BYTES_H_
#define ESPALIER_TESTS_SUPPORT_GGUF_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace espalier::testing {

/// The bytes of a GGUF file in the making.
class GgufBytes {
 public:
  explicit GgufBytes(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3)
      : version_(version) {
    bytes_ = "GGUF";
    number(version).size(tensors).size(pairs);
  }

  template <class T>
  GgufBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  /// A length or a count.
  GgufBytes& size(std::uint64_t value) {
    return version_ == 1 ? number(static_cast<std::uint32_t>(value)) : number(value);
  }
  GgufBytes& text(std::string_view text) {
    size(text.size());
    bytes_ += text;
    return *this;
  }
  /// The key of a pair and its type, by number; the value must follow.
  GgufBytes& key(std::string_view key, std::uint32_t type) { return text(key).number(type); }
  /// A pair whose value is an array; the elements must follow.
  GgufBytes& array(std::string_view name, std::uint32_t element, std::uint64_t count) {
    return key(name, 9).number(element).size(count);
  }
  /// A tensor; `dims` in the order of the file.
  GgufBytes& tensor(std::string_view name, std::initializer_list<std::uint64_t> dims,
                    std::uint32_t type, std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) size(dim);
    return number(type).number(offset);
  }
  GgufBytes& pad(std::size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  /// Data of that many made-up bytes.
  GgufBytes& data(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) bytes_ += static_cast<char>(i * 37 % 251);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::uint32_t version_;
  std::string bytes_;
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_GGUF_BYTES_H_
