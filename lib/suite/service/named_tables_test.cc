#include "lib/suite/service/named_tables.h"

#include <boost/test/unit_test.hpp>

namespace pen::service {
namespace {

/// "setting: spec" of what a main.cf names for a program.
std::vector<std::string> named(const std::string& main_cf, std::string_view program = {}) {
  const auto config = config::Config::parse({"/etc/penstock", main_cf, "", {}},
                                            {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  std::vector<std::string> out;
  for (const NamedTable& table : named_tables(config, program))
    if (table.spec.contains("/x")) out.push_back(table.setting + ": " + table.spec);
  return out;
}
using Found = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(tables_of_settings)

BOOST_AUTO_TEST_CASE(settings_of_one_table_and_old_names_count_as_well) {
  BOOST_TEST((named("smtpd_milter_maps = cidr:/x\n") == Found{"smtpd_milter_maps: cidr:/x"}));
  BOOST_TEST((named("postscreen_dnsbl_reply_map = texthash:/x\n") == Found{"postscreen_dnsbl_reply_map: texthash:/x"}));
  BOOST_TEST((named("smtp_tls_per_site = hash:/x\n") == Found{"smtp_tls_per_site: hash:/x"}));
  BOOST_TEST((named("mime_header_checks = /x\n") == Found{"mime_header_checks: /x"}));
  BOOST_TEST((named("mydestination = a.example, /x\n") == Found{"mydestination: /x"}));
}

BOOST_AUTO_TEST_CASE(restrictions_name_the_tables_behind_their_words) {
  BOOST_TEST((named("smtpd_client_restrictions = check_client_access /x, check_sender_access hash:/x/y, permit\n") ==
              Found{"smtpd_client_restrictions: /x", "smtpd_client_restrictions: hash:/x/y"}));
  BOOST_TEST(
      (named("smtpd_client_restrictions = check_ccert_access { hash:/x, { search_order = pubkey_fingerprint } }\n") ==
       Found{"smtpd_client_restrictions: hash:/x"}));
  BOOST_TEST((named("smtpd_restriction_classes = a\na = check_client_access hash:/x\n") == Found{"a: hash:/x"}));
  BOOST_TEST((named("smtpd_client_restrictions = reject_rbl_client /x\n") == Found{}));
  BOOST_TEST((named("smtpd_client_restrictions = check_policy_service unix:private/policy, hash:/x\n") ==
              Found{"smtpd_client_restrictions: hash:/x"}));
}

BOOST_AUTO_TEST_CASE(lists_of_patterns_name_tables_and_files_and_words_name_none) {
  BOOST_TEST((named("smtpd_noop_commands = !/x, hash:/x/y\n") ==
              Found{"smtpd_noop_commands: hash:/x/y", "smtpd_noop_commands: /x"}));
  BOOST_TEST((named("smtpd_banner = hash:/x\nrelayhost = unix:/x\naddress_verify_map = lmdb:/x\n") == Found{}));
}

BOOST_AUTO_TEST_CASE(who_takes_mail_in_has_the_tables_of_addresses) {
  const Found found{"virtual_alias_maps: hash:/x"};
  for (const char* program : {"smtpd", "pickup", "qmqpd", "verify", "bounce", "local", "trivial-rewrite"})
    BOOST_TEST((named("virtual_alias_maps = debug:proxy:hash:/x\nvirtual_alias_domains =\n", program) == found),
               program);
  BOOST_TEST((named("virtual_alias_maps = hash:/x\nvirtual_alias_domains =\n", "virtual") == Found{}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::service
