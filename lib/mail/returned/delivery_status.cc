#include "lib/mail/returned/delivery_status.h"

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/mail/returned/fields.h"

namespace pen::returned {
namespace {

constexpr auto kActions = std::to_array<std::string_view>({"failed", "delayed", "delivered", "relayed", "expanded"});

std::optional<Action> action_of(std::string_view value) {
  const auto word = value.substr(0, value.find_first_of(" (;"));
  const auto at = std::ranges::find_if(kActions, [&](auto name) { return iequals(name, word); });
  if (at == kActions.end()) return std::nullopt;
  return static_cast<Action>(at - kActions.begin());
}

/// The fields of one recipient.
struct Group {
  ReturnedRecipient recipient;
  std::optional<Action> action;
  bool any() const { return !recipient.address().empty(); }
};

/// Completes what was said. False: nothing was said of the recipient.
bool complete(Group& group) {
  ReturnedRecipient& r = group.recipient;
  // Some programs write 5.0.0 whatever the reply was.
  const bool vague = r.status.ends_with(".0.0");
  if (auto said = status_within(r.diagnostic); r.status.empty() || (vague && said.starts_with(r.status.front())))
    r.status = std::move(said);
  const char digit = r.status.empty() ? '\0' : r.status.front();
  if (!group.action && digit != '\0')
    group.action = digit == '5' ? Action::failed : digit == '4' ? Action::delayed : Action::delivered;
  if (!group.action) return false;
  r.action = *group.action;
  if (r.status.empty())
    r.status = r.action == Action::failed ? "5.0.0" : r.action == Action::delayed ? "4.0.0" : "2.0.0";
  return true;
}

void end_group(Group& group, Notice& notice) {
  if (group.any() && complete(group)) {
    if (notice.recipients.size() < kMostRecipients)
      notice.recipients.push_back(std::move(group.recipient));
    else
      ++notice.more;
  }
  group = {};
}

}  // namespace

std::string_view action_name(Action action) { return kActions[static_cast<std::size_t>(action)]; }

std::optional<Notice> read_delivery_status(std::string_view text) {
  Notice notice;
  Group group;
  for (FieldLines lines(text); auto field = lines.next();) {
    const auto is = [&](std::string_view name) { return iequals(field->name, name); };
    ReturnedRecipient& r = group.recipient;
    if (field->name.empty()) {
      end_group(group, notice);
    } else if (is("Final-Recipient")) {
      if (!r.final.empty()) end_group(group, notice);  // the empty line is missing
      group.recipient.final = address_of(field->value);
    } else if (is("Original-Recipient")) {
      if (!r.original.empty()) end_group(group, notice);
      group.recipient.original = address_of(field->value);
    } else if (is("Action")) {
      group.action = action_of(field->value);
    } else if (is("Status")) {
      r.status = status_of(field->value);
    } else if (is("Diagnostic-Code")) {
      r.diagnostic = untyped(field->value);
    } else if (is("Remote-MTA")) {
      r.remote_mta = address_of(field->value);
    } else if (is("Reporting-MTA")) {
      notice.reporting_mta = address_of(field->value);
    } else if (is("Original-Envelope-Id")) {
      notice.envid = clean(field->value, kMaxText);
    }
  }
  end_group(group, notice);
  if (notice.recipients.empty()) return std::nullopt;
  return notice;
}

}  // namespace pen::returned
