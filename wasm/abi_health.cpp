// The part of abi.h that surveys tensors and checks their health.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "statistics_record.h"
#include "whole_elements.h"

#include "espalier/health/check.h"
#include "espalier/health/tensor_survey.h"

namespace espalier::abi {
namespace {

static_assert(sizeof(SurveyResult) == 184 && offsetof(SurveyResult, norm) == 72 &&
              offsetof(SurveyResult, first_nan) == 128 &&
              offsetof(SurveyResult, dead_columns) == 176);
static_assert(sizeof(HealthFinding) == 40 && offsetof(HealthFinding, at) == 32);

}  // namespace

class Survey {
 public:
  Survey(DType dtype, std::span<const std::uint64_t> shape)
      : surveyor_(dtype, shape), whole_(dtype) {}

  void add(ByteSpan packed) {
    whole_.add(packed, [this](ByteSpan whole) { surveyor_.add(whole); });
  }
  TensorSurvey end() {
    whole_.end([this](ByteSpan whole) { surveyor_.add(whole); });
    return surveyor_.survey();
  }

  TensorSurvey result;

 private:
  Surveyor surveyor_;
  WholeElements whole_;
};

class Health {
 public:
  HealthCheck check;
  std::uint64_t tensors = 0;
  std::vector<Finding> found;
};

Survey* espalier_survey(std::uint32_t dtype, const std::uint64_t* shape, std::uint32_t rank) {
  const auto known =
      dtype < 256 ? dtype_from_number(static_cast<std::uint8_t>(dtype)) : std::nullopt;
  return new Survey(known.value_or(DType::kOpaque), {shape, rank});
}

void espalier_survey_add(Survey* survey, const std::byte* packed, std::uint32_t length) {
  survey->add({packed, length});
}

void espalier_survey_result(Survey* survey, SurveyResult* out) {
  const TensorSurvey& result = survey->result = survey->end();
  *out = {};
  out->statistics = statistics_of(result.summary);
  out->norm = result.norm;
  out->rms = result.rms;
  out->median_size = result.median_size;
  out->size_90 = result.size_90;
  out->size_99 = result.size_99;
  out->size_999 = result.size_999;
  out->saturated = result.saturated;
  out->first_nan = result.first_nan.value_or(kNowhere);
  out->first_infinite = result.first_infinite.value_or(kNowhere);
  out->elements = result.elements;
  out->rows = result.rows.count;
  out->columns = result.columns.count;
  out->dead_rows = result.rows.dead;
  out->dead_columns = result.columns.dead;
}

void espalier_survey_free(Survey* survey) { delete survey; }

Health* espalier_health() { return new Health; }

void espalier_health_tensor(Health* health, const char* path, std::uint32_t length,
                            Survey* survey) {
  health->check.add(health->tensors++, {path, length}, survey->result);
}

void espalier_health_unreadable(Health* health, const char* path, std::uint32_t length,
                                const char* reason, std::uint32_t reason_length) {
  health->check.add_unreadable({path, length}, std::string(reason, reason_length));
}

void espalier_health_number(Health* health, const char* path, std::uint32_t length, double value) {
  health->check.add_number({path, length}, value);
}

void espalier_health_present(Health* health, const char* path, std::uint32_t length) {
  health->check.add_present({path, length});
}

std::uint32_t espalier_health_findings(Health* health) {
  health->found = health->check.findings();
  return static_cast<std::uint32_t>(health->found.size());
}

void espalier_health_finding(Health* health, std::uint32_t i, HealthFinding* out) {
  const Finding& finding = health->found[i];
  *out = {static_cast<std::uint32_t>(finding.rule),
          static_cast<std::uint32_t>(finding.severity),
          text_of(finding.path),
          text_of(finding.other),
          text_of(finding.text),
          finding.at.value_or(kNowhere)};
}

void espalier_health_free(Health* health) { delete health; }

}  // namespace espalier::abi
