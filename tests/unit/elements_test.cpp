#include "espalier/tree/elements.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/data_folder.h"
#include <doctest/doctest.h>

namespace {

using espalier::decode_elements;
using espalier::DType;
using espalier::element_type;
using espalier::ElementType;

struct Expected {
  std::vector<std::uint32_t> codes;
  std::vector<double> values;
};

// Values from numpy and ml_dtypes, by dtype name: see make_values.py beside the file.
std::map<std::string, Expected> read_expected() {
  std::map<std::string, Expected> expected;
  std::ifstream file(espalier::testing::data_path("elements/values.txt"));
  std::string name;
  std::uint32_t code = 0;
  std::string value;
  while (file >> name >> code >> value) {
    expected[name].codes.push_back(code);
    expected[name].values.push_back(std::stod(value));
  }
  return expected;
}

// Codes one after the other, each from its lowest bit on.
std::vector<std::byte> pack(const std::vector<std::uint32_t>& codes, std::uint32_t bits) {
  std::vector<std::byte> packed((codes.size() * bits + 7) / 8);
  std::size_t position = 0;
  for (const std::uint32_t code : codes) {
    for (std::uint32_t bit = 0; bit < bits; ++bit, ++position) {
      if ((code >> bit & 1u) != 0) packed[position / 8] |= std::byte{1} << (position % 8);
    }
  }
  return packed;
}

std::vector<double> decode_as_double(DType dtype, const std::vector<std::byte>& packed,
                                     std::uint64_t first, std::size_t count) {
  std::vector<double> values(count);
  if (element_type(dtype) == ElementType::kFloat64) {
    decode_elements<double>(dtype, packed, first, values);
    return values;
  }
  std::vector<std::int64_t> integers(count);
  decode_elements<std::int64_t>(dtype, packed, first, integers);
  values.assign(integers.begin(), integers.end());
  return values;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

TEST_CASE("small types decode as numpy and ml_dtypes do") {
  const auto expected = read_expected();
  REQUIRE(expected.size() == 16);
  for (const auto& entry : expected) {
    const std::string& name = entry.first;
    const Expected& table = entry.second;
    CAPTURE(name);
    const auto dtype = espalier::dtype_from_name(name);
    REQUIRE(dtype);
    const auto packed = pack(table.codes, espalier::dtype_bits(*dtype));
    // From the first element, and from one that begins within a byte.
    for (const std::size_t first : {std::size_t{0}, std::size_t{3}}) {
      const auto values = decode_as_double(*dtype, packed, first, table.codes.size() - first);
      for (std::size_t i = 0; i < values.size(); ++i) {
        CAPTURE(table.codes[first + i]);
        CHECK(same(values[i], table.values[first + i]));
      }
    }
  }
}

TEST_CASE("wide types keep every bit") {
  const std::vector<std::uint64_t> words = {~std::uint64_t{0}, std::uint64_t{1} << 63, 7};
  const auto bytes = std::as_bytes(std::span(words));
  std::vector<std::uint64_t> unsigned_values(3);
  decode_elements<std::uint64_t>(DType::kU64, bytes, 0, unsigned_values);
  CHECK(unsigned_values == words);
  std::vector<std::int64_t> signed_values(3);
  decode_elements<std::int64_t>(DType::kI64, bytes, 0, signed_values);
  CHECK(signed_values ==
        std::vector<std::int64_t>{-1, std::numeric_limits<std::int64_t>::min(), 7});
  const std::vector<float> parts = {1.5f, -2.0f};
  std::vector<std::complex<double>> complex(1);
  decode_elements<std::complex<double>>(DType::kC64, std::as_bytes(std::span(parts)), 0, complex);
  CHECK(complex[0] == std::complex<double>(1.5, -2.0));
}

TEST_CASE("nothing is decoded beyond the bytes, or to another type") {
  const std::vector<std::byte> packed(3);
  std::vector<double> reals(5, -1.0);
  decode_elements<double>(DType::kF6E2M3FN, packed, 0, reals);  // 4 fit
  decode_elements<double>(DType::kF6E2M3FN, packed, ~std::uint64_t{0}, reals);
  decode_elements<double>(DType::kI8, packed, 0, std::span(reals).first(1));
  decode_elements<double>(DType::kOpaque, packed, 0, std::span(reals).first(1));
  CHECK(reals == std::vector<double>(5, -1.0));
  decode_elements<double>(DType::kF6E2M3FN, packed, 0, std::span(reals).first(4));
  CHECK(reals == std::vector<double>{0, 0, 0, 0, -1.0});
}

TEST_CASE("elements in bytes") {
  CHECK(espalier::elements_in(3, 6) == 4);
  CHECK(espalier::elements_in(5, 16) == 2);
  CHECK(espalier::elements_in(~std::uint64_t{0}, 64) == (~std::uint64_t{0} >> 3));
  CHECK(espalier::elements_in(5, 0) == 0);
}
