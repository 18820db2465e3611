#include "tools/finding_place.h"

#include <algorithm>
#include <vector>

#include "lib/base/text.h"
#include "lib/config/restrictions.h"

namespace pen::tools {
namespace {

std::vector<std::string_view> words_of(std::string_view sentence) {
  std::vector<std::string_view> words;
  for (std::string_view word : split(sentence, " \t\n,;=\"(){}")) {
    while (word.ends_with(':') || word.ends_with('.')) word.remove_suffix(1);
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

class PlaceFinder {
 public:
  PlaceFinder(const config::Config& config, std::string_view sentence) : config_(config), words_(words_of(sentence)) {
    for (std::size_t i = 0; i + 1 < words_.size(); ++i)
      if (words_[i] == "service")
        for (const config::Service& service : config.master())
          if (service.label() == words_[i + 1] || service.name == words_[i + 1]) service_ = &service;
  }

  std::optional<FindingPlace> find() const {
    for (const std::string_view word : words_)
      if (const config::Row* row = config::find_row(word); row != nullptr && row->kind == config::Class::acts)
        if (auto found = setting(word)) return found;
    for (const std::string_view word : words_)
      if (word.starts_with('/') || config::find_restriction(word) != nullptr)
        if (auto found = value_with(word)) return found;
    if (service_ == nullptr) return std::nullopt;
    return FindingPlace{{}, {config_.master_file(), service_->line}};
  }

 private:
  /// Where a setting is set: by the sentence's service, in main.cf, by any service.
  std::optional<FindingPlace> setting(std::string_view name) const {
    if (service_ != nullptr && is_set_by(*service_, name)) return of_service(name, *service_);
    if (const auto place = config_.where(name)) return FindingPlace{std::string(name), *place};
    for (const config::Service& service : config_.master())
      if (is_set_by(service, name)) return of_service(name, service);
    return std::nullopt;
  }

  static bool is_set_by(const config::Service& service, std::string_view name) {
    return std::ranges::any_of(service.overrides, [&](const auto& o) { return o.name == name; });
  }
  FindingPlace of_service(std::string_view name, const config::Service& service) const {
    return {std::string(name), {config_.master_file(), service.line}};
  }

  /// A setting with the word in its value.
  std::optional<FindingPlace> value_with(std::string_view word) const {
    const auto has = [&](const std::string& value) { return value.contains(word); };
    if (service_ != nullptr)
      for (const config::Assignment& own : service_->overrides)
        if (has(own.value)) return of_service(own.name, *service_);
    for (const std::string& name : config_.names_set())
      if (const auto place = config_.where(name); place && has(config_.text(name).value_or("")))
        return FindingPlace{name, *place};
    for (const config::Service& service : config_.master())
      for (const config::Assignment& own : service.overrides)
        if (has(own.value)) return of_service(own.name, service);
    return std::nullopt;
  }

  const config::Config& config_;
  std::vector<std::string_view> words_;
  const config::Service* service_ = nullptr;
};

}  // namespace

std::optional<FindingPlace> finding_place(const config::Config& config, std::string_view sentence) {
  return PlaceFinder(config, sentence).find();
}

}  // namespace pen::tools
