#include "lib/meaning/smtpd/policy_service.h"

#include <algorithm>
#include <limits>

#include "lib/base/text.h"
#include "lib/config/values.h"

namespace pen::smtpd {
namespace {

std::string_view without_braces(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && text.front() == '{' && text.back() == '}') text = trim(text.substr(1, text.size() - 2));
  return text;
}

// As the rows of smtpd_policy_service_* in params.def.
constexpr int kMostRequests = 1'000'000'000, kMostTries = 1000;
constexpr milliseconds kLongest = std::chrono::hours(24);

bool read_time(std::string_view value, bool zero, milliseconds& into) {
  const auto time = config::parse_time(value, 's');
  if (!time || *time > kLongest || *time < milliseconds(zero ? 0 : 1)) return false;
  into = *time;
  return true;
}

bool read_count(std::string_view value, int least, int most, int& into) {
  const auto count = parse_unsigned(value);
  if (!count || *count < static_cast<unsigned>(least) || *count > static_cast<unsigned>(most)) return false;
  into = static_cast<int>(*count);
  return true;
}

/// Sets what the name stands for. False: there is no such name, or it cannot have this value.
bool assign(PolicyService& service, std::string_view name, std::string_view value) {
  if (name == "timeout") return read_time(value, false, service.timeout);
  if (name == "max_idle") return read_time(value, false, service.max_idle);
  if (name == "max_ttl") return read_time(value, false, service.max_ttl);
  if (name == "retry_delay") return read_time(value, true, service.retry_delay);
  if (name == "request_limit") return read_count(value, 0, kMostRequests, service.request_limit);
  if (name == "try_limit") return read_count(value, 1, kMostTries, service.try_limit);
  if (name != "default_action" && name != "policy_context") return false;
  (name == "default_action" ? service.default_action : service.context) = std::string(value);
  return true;
}

}  // namespace

std::string_view describe(PolicyServiceError e) {
  switch (e) {
    case PolicyServiceError::bad_service:
      return "not a policy service";
  }
  return "unknown";
}

Result<PolicyService> PolicyService::read(std::string_view text, const config::Settings& s) {
  const auto wrong = [&](const std::string& why) {
    return fail(PolicyServiceError::bad_service, printable(text, 200) + ": " + why);
  };
  PolicyService out{.text = std::string(trim(text)),
                    .name = {},
                    .address = {},
                    .families = {},
                    .timeout = s.smtpd_policy_service_timeout,
                    .max_idle = s.smtpd_policy_service_max_idle,
                    .max_ttl = s.smtpd_policy_service_max_ttl,
                    .request_limit = s.smtpd_policy_service_request_limit,
                    .try_limit = s.smtpd_policy_service_try_limit,
                    .retry_delay = s.smtpd_policy_service_retry_delay,
                    .default_action = s.smtpd_policy_service_default_action,
                    .context = s.smtpd_policy_service_policy_context};
  const auto items = split_list(without_braces(text));
  if (items.empty()) return wrong("no address");
  auto address = helper::ServerAddress::parse(items.front(), {.directory = s.queue_directory});
  if (!address) return wrong(address.error());
  out.name = items.front();
  out.address = *std::move(address);
  out.families = families_of(s);
  for (std::size_t i = 1; i < items.size(); ++i) {
    const std::string_view item = without_braces(items[i]);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) return wrong("\"" + printable(item, 60) + "\" is not name=value");
    if (!assign(out, trim(item.substr(0, equals)), trim(item.substr(equals + 1))))
      return wrong("\"" + printable(item, 60) + "\" is not a setting of a policy service, or not a value of it");
  }
  return out;
}

}  // namespace pen::smtpd
