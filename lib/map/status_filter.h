#pragma once
/// Replaces a delivery's status code and text by what tables say: *_delivery_status_filter.
///
/// Use:     PEN_TRY_ASSIGN(auto filter, StatusFilter::open(settings.local_delivery_status_filter, options));
///          if (auto warning = filter.apply(status); !warning.empty()) log it
/// Asked:   the key is "5.1.1 text"; the tables are tried in order and the first that has it wins. The value has the
///          same form.
/// Rules:   success stays success and failure stays failure, but a temporary failure may become permanent (unless the
///          caller says may_give_up = false) and the reverse. The peer's diagnostic does not change.
/// Errors:  open(): a malformed specification. apply(): a value against the rules, or a table that cannot be read; the
///          status is then unchanged and the return value is the warning.
/// Thread:  const calls from any thread. blocking(): a look-up may wait.
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
  /// may_give_up: false while other hosts may still be tried; a value that makes a temporary failure permanent is then
  /// ignored. Returns a warning about the tables' value; empty: there is none.
  std::string apply(mail::DeliveryStatus& status, bool may_give_up = true) const;

 private:
  MapList maps_;
};

}  // namespace pen::map
