#pragma once
/// What main.cf says about the users who may submit mail: read by pendrop and pickup alike.
#include "lib/base/text.h"
#include "lib/config/settings.h"
#include "lib/mail/delimiters.h"
#include "lib/receive/submission/rights.h"

namespace pen::pickup {

inline submission::Rights::Settings rights_of(const config::Settings& s) {
  return {.users = join(s.authorized_submit_users),
          .login_senders = join(s.local_login_sender_maps),
          .null_pattern = s.empty_address_local_login_sender_maps_lookup_key,
          .delimiters = mail::delimiters(s.recipient_delimiter, s.owner_request_special),
          .table_type = s.default_database_type};
}

}  // namespace pen::pickup
