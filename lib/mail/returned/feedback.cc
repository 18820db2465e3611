#include "lib/mail/returned/feedback.h"

#include <algorithm>
#include <array>

#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/mail/returned/fields.h"

namespace pen::returned {
namespace {

constexpr auto kTypes =
    std::to_array<std::string_view>({"abuse", "fraud", "virus", "not-spam", "opt-out", "auth-failure", "other"});

FeedbackType type_of(std::string_view value) {
  const auto word = value.substr(0, value.find_first_of(" (;"));
  const auto at = std::ranges::find_if(kTypes, [&](auto name) { return iequals(name, word); });
  return at == kTypes.end() ? FeedbackType::other : static_cast<FeedbackType>(at - kTypes.begin());
}

/// "192.0.2.1", "[192.0.2.1]" or "IPv6:2001:db8::1".
std::string numeric(std::string_view value) {
  value = trim(value);
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  if (istarts_with(value, "IPv6:")) value.remove_prefix(5);
  value = value.substr(0, value.find_first_of(" (;"));
  return parse_ip(value) ? std::string(value) : std::string();
}

void add(std::vector<std::string>& all, std::string one, std::size_t most) {
  if (!one.empty() && all.size() < most) all.push_back(std::move(one));
}

}  // namespace

std::string_view feedback_name(FeedbackType type) { return kTypes[static_cast<std::size_t>(type)]; }

std::optional<Feedback> read_feedback(std::string_view text) {
  Feedback out;
  bool typed = false;
  for (FieldLines lines(text); auto field = lines.next();) {
    const auto is = [&](std::string_view name) { return iequals(field->name, name); };
    const std::string& value = field->value;
    if (is("Feedback-Type")) {
      typed = true;
      out.type = type_of(value);
    } else if (is("User-Agent")) {
      out.user_agent = clean(value, kMaxText);
    } else if (is("Original-Mail-From")) {
      out.mail_from = address_of(value);
    } else if (is("Original-Rcpt-To")) {
      add(out.recipients, address_of(value), kMostRecipients);
    } else if (is("Source-IP")) {
      out.source_ip = numeric(value);
    } else if (is("Reported-Domain")) {
      add(out.domains, clean(value, kMaxText), kMostDomains);
    } else if (is("Arrival-Date") || is("Received-Date")) {
      out.arrival = clean(value, kMaxText);
    } else if (is("Reporting-MTA")) {
      out.reporting_mta = address_of(value);
    } else if (is("Incidents")) {
      out.incidents = parse_unsigned(value).value_or(0);
    } else if (is("Auth-Failure")) {
      out.auth_failure = clean(value, kMaxText);
    } else if (is("Delivery-Result")) {
      out.delivery_result = clean(value, kMaxText);
    }
  }
  if (!typed) return std::nullopt;
  return out;
}

}  // namespace pen::returned
