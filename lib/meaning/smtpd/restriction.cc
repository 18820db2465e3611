#include "lib/meaning/smtpd/restriction.h"

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/config/restriction_faults.h"

namespace pen::smtpd {
namespace {

Check table_check(Stage stage) {
  switch (stage) {
    case Stage::client:
      return Check::check_client_access;
    case Stage::helo:
      return Check::check_helo_access;
    case Stage::sender:
      return Check::check_sender_access;
    case Stage::etrn:
      return Check::check_etrn_access;
    default:
      return Check::check_recipient_access;
  }
}

std::string_view setting_of(Stage stage) {
  switch (stage) {
    case Stage::client:
      return "smtpd_client_restrictions";
    case Stage::helo:
      return "smtpd_helo_restrictions";
    case Stage::sender:
      return "smtpd_sender_restrictions";
    case Stage::relay:
      return "smtpd_relay_restrictions";
    case Stage::recipient:
      return "smtpd_recipient_restrictions";
    case Stage::data:
      return "smtpd_data_restrictions";
    case Stage::end_of_data:
      return "smtpd_end_of_data_restrictions";
    case Stage::etrn:
      return "smtpd_etrn_restrictions";
  }
  return {};
}

}  // namespace

void RestrictionReader::warn_once(std::string text) {
  if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(std::move(text));
}

void RestrictionReader::open_maps(Restriction& r, const std::string& spec) {
  auto access = read_access_table(spec);
  if (!access) {
    warnings_.push_back(r.name + ": " + access.error());
    r.check = Check::unknown;
    return;
  }
  r.prints = std::move(access->order);
  auto maps = map::MapList::open(access->table, open_);
  if (maps) {
    r.maps = *std::move(maps);
  } else {
    warnings_.push_back(r.name + " " + spec + ": " + maps.error().message());
    r.check = Check::unknown;
  }
}

void RestrictionReader::read_argument(Restriction& r, const config::RestrictionName& known,
                                      const std::string& argument) {
  if (r.check == Check::unsupported) return;
  if (known.takes_argument == config::RestrictionName::table) {
    open_maps(r, argument);
  } else if (known.takes_argument == config::RestrictionName::dns_list) {
    auto parsed = dnsbl::parse_list(argument);
    if (parsed) {
      r.dns_list = std::make_shared<dnsbl::List>(*std::move(parsed));
    } else {
      warnings_.push_back(r.name + ": " + parsed.error().message());
      r.check = Check::unknown;
    }
  } else if (r.check == Check::check_policy_service) {
    if (auto service = PolicyService::read(argument, settings_)) {
      r.service = std::make_shared<const PolicyService>(*std::move(service));
    } else {
      warnings_.push_back(r.name + ": " + service.error().message());
      r.check = Check::unknown;
    }
  } else if (r.check == Check::sleep) {
    const auto number = parse_unsigned(argument);
    if (number && *number <= static_cast<unsigned>(kMaxPause.count())) {
      r.pause = seconds(*number);
    } else {
      warnings_.push_back(r.name + " must be followed by a number of seconds, at most " +
                          std::to_string(kMaxPause.count()));
      r.check = Check::unknown;
    }
  }
}

RestrictionList RestrictionReader::read(Stage stage, const std::vector<std::string>& items) {
  open_.setting = setting_of(stage);
  return read_items(stage, items);
}

RestrictionList RestrictionReader::read_items(Stage stage, const std::vector<std::string>& items) {
  RestrictionList list;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Restriction r;
    r.name = items[i];
    if (const config::RestrictionName* known = config::find_restriction(r.name)) {
      r.check = known->check;
      r.waits = known->waits;
      if (r.check == Check::unsupported) warn_once(config::cannot_act(*known));
      if (known->takes_argument && ++i == items.size()) {
        warnings_.push_back(config::lacks_argument(r.name));
        r.check = Check::unknown;
      } else if (r.check == Check::permit_mx_backup) {
        warn_once(
            "support for restriction \"permit_mx_backup\" will be removed from Postfix; instead, specify "
            "\"relay_domains\"");
      } else if (known->takes_argument) {
        read_argument(r, *known, items[i]);
      }
    } else if (const auto cls = std::ranges::find_if(classes_, [&](const Class& c) { return iequals(c.name, r.name); });
               cls != classes_.end()) {
      r.check = Check::restriction_class;
      r.class_index = static_cast<std::size_t>(cls - classes_.begin());
    } else if (r.name.find(':') != std::string::npos) {
      const std::string spec = r.name;
      r.check = table_check(stage);
      open_maps(r, spec);
    } else {
      warnings_.push_back(config::unknown_restriction(r.name));
    }
    list.push_back(std::move(r));
  }
  if (!list.empty() && list.back().check == Check::warn_if_reject)
    warnings_.push_back("warn_if_reject: no restriction follows");
  return list;
}

std::vector<RestrictionList> RestrictionReader::read_classes() {
  std::vector<RestrictionList> lists;
  open_.setting = "smtpd_restriction_classes";
  for (const auto& c : classes_) lists.push_back(read_items(Stage::recipient, c.items));
  return lists;
}

bool may_wait(const RestrictionList& list, const std::vector<RestrictionList>& classes, int depth) {
  return std::ranges::any_of(list, [&](const Restriction& r) {
    if (r.check == Check::restriction_class) return depth > 20 || may_wait(classes[r.class_index], classes, depth + 1);
    return r.waits == config::Waits::for_network || r.maps.blocking();
  });
}

bool asks_policy(const RestrictionList& list, const std::vector<RestrictionList>& classes, int depth) {
  return std::ranges::any_of(list, [&](const Restriction& r) {
    if (r.check == Check::restriction_class)
      return depth > 20 || asks_policy(classes[r.class_index], classes, depth + 1);
    return r.check == Check::check_policy_service;
  });
}

}  // namespace pen::smtpd
