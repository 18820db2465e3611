#pragma once
/// What tables have in place of a delivery's status code and text: *_delivery_status_filter.
///
/// Use:     PEN_TRY_ASSIGN(auto filter, StatusFilter::open(settings.local_delivery_status_filter, options));
///          if (auto warning = filter.apply(status); !warning.empty()) log it
/// Asked:   "5.1.1 text", the tables in order; the first that has it wins. The answer has the same form.
/// Rules:   success stays success and trouble stays trouble, but a temporary failure may become a permanent one (unless
///          the caller says may_give_up = false) and the other way round. What a peer said (the diagnostic) stays as
///          it was.
/// Errors:  open(): a specification that is none. apply(): an answer against the rules and a table that cannot be
///          read change nothing, and are what it returns.
/// Thread:  const calls from any. blocking(): a look-up may wait.
/// Source:  Postfix default_delivery_status_filter.
#include <string>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/map/map.h"

namespace pen::map {

class StatusFilter {
 public:
  StatusFilter() = default;
  static Result<StatusFilter> open(const std::vector<std::string>& tables, const OpenOptions& options);
  bool empty() const { return maps_.empty(); }
  bool blocking() const { return maps_.blocking(); }
  std::vector<Error> problems() const { return maps_.problems(); }
  /// may_give_up: false where others may yet be asked; an answer that makes a temporary failure permanent is then
  /// left out. Returns what was wrong with the tables' answer; empty: nothing.
  std::string apply(mail::DeliveryStatus& status, bool may_give_up = true) const;

 private:
  MapList maps_;
};

}  // namespace pen::map
