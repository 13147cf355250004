#include "espalier/codec/number_form.h"

#include <cstddef>
#include <cstring>

namespace espalier {
namespace {

std::uint8_t swapped(std::uint8_t number) { return number; }
std::uint16_t swapped(std::uint16_t number) { return __builtin_bswap16(number); }
std::uint32_t swapped(std::uint32_t number) { return __builtin_bswap32(number); }
std::uint64_t swapped(std::uint64_t number) { return __builtin_bswap64(number); }

template <class Number>
void restore(const NumberForm& form, MutableByteSpan bytes) {
  constexpr auto kSign = static_cast<Number>(Number{1} << (8 * sizeof(Number) - 1));
  const bool is_integer = form.negation == NumberForm::Negation::kInteger;
  const Number even = form.negation == NumberForm::Negation::kFloat ? kSign : Number{0};
  const Number odd = form.is_conjugated ? static_cast<Number>(even ^ kSign) : even;
  std::byte* at = bytes.data();
  for (std::size_t i = 0; i < bytes.size() / sizeof(Number); ++i, at += sizeof(Number)) {
    Number number = 0;
    std::memcpy(&number, at, sizeof number);
    if (form.is_swapped) number = swapped(number);
    if (is_integer) number = static_cast<Number>(Number{0} - number);
    number = static_cast<Number>(number ^ (i % 2 == 0 ? even : odd));
    std::memcpy(at, &number, sizeof number);
  }
}

}  // namespace

void restore_numbers(const NumberForm& form, MutableByteSpan bytes) {
  switch (form.width) {
    case 1:
      return restore<std::uint8_t>(form, bytes);
    case 2:
      return restore<std::uint16_t>(form, bytes);
    case 4:
      return restore<std::uint32_t>(form, bytes);
    default:
      return restore<std::uint64_t>(form, bytes);
  }
}

}  // namespace espalier
