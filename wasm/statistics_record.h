// Converts a summary to its record in abi.h.
#ifndef ESPALIER_WASM_STATISTICS_RECORD_H_
#define ESPALIER_WASM_STATISTICS_RECORD_H_

#include <cstdint>
#include <variant>

#include "abi.h"

#include "espalier/tree/statistics.h"

namespace espalier::abi {

inline Statistics statistics_of(const Summary& summary) {
  Statistics record = {};
  record.finite = summary.finite;
  record.zeros = summary.zeros;
  record.nans = summary.nans;
  record.infinities = summary.infinities;
  if (summary.min && summary.max) {
    const auto bits = [](const Number& number) {
      return std::visit([](auto value) { return bits_as<std::uint64_t>(value); }, number);
    };
    record.range_kind = static_cast<std::uint32_t>(summary.min->index()) + 1;
    record.min = bits(*summary.min);
    record.max = bits(*summary.max);
  }
  record.mean = summary.mean;
  record.deviation = summary.deviation();
  return record;
}

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_STATISTICS_RECORD_H_
