#include "lib/config/ways.h"

#include <boost/test/unit_test.hpp>

namespace pen::config {
BOOST_AUTO_TEST_SUITE(ways)

namespace {

Config config(const std::string& main_cf, const std::string& master_cf) {
  return Config::parse({.directory = "/etc/penstock", .main_cf = main_cf, .master_cf = master_cf, .overrides = {}},
                       {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
}
using Named = std::vector<std::string>;
const std::string kMaster =
    "25 inet n - n - - smtpd\npickup unix n - n - - pickup\nlocal unix - - n - - local\n"
    "127.0.0.1:10026 inet n - n - - smtpd -o content_filter=\n";

BOOST_AUTO_TEST_CASE(a_filter_is_named_by_content_filter_of_each_service) {
  const Config plain = config("", kMaster);
  BOOST_TEST((filters_named(plain, "smtpd").named.empty() && !filters_named(plain, "smtpd").any));
  const Config filtered = config("content_filter = smtp:[127.0.0.1]:10025 \n",
                                 kMaster + "587 inet n - n - - smtpd -o content_filter=scan:\n");
  BOOST_TEST((filters_named(filtered, "smtpd").named == Named{"smtp:[127.0.0.1]:10025", "scan:"}));
  BOOST_TEST((filters_named(filtered, "pickup").named == Named{"smtp:[127.0.0.1]:10025"}));
  BOOST_TEST(filters_named(filtered, "pickup").has("smtp:[127.0.0.1]:10025"));
  BOOST_TEST(!filters_named(filtered, "pickup").has("scan:"));
  BOOST_TEST(!filters_named(filtered, "smtpd").has(""));
  BOOST_TEST(filters_named(filtered, "qmqpd").named.empty());
}

BOOST_AUTO_TEST_CASE(where_a_table_may_say_filter_any_may_be_named) {
  for (const char* setting :
       {"smtpd_client_restrictions", "smtpd_helo_restrictions", "smtpd_sender_restrictions", "smtpd_relay_restrictions",
        "smtpd_recipient_restrictions", "smtpd_data_restrictions", "smtpd_end_of_data_restrictions"}) {
    const std::string name = std::string(setting) + " = permit_mynetworks, ";
    BOOST_TEST(!filters_named(config(name + "reject_unauth_destination\n", kMaster), "smtpd").any, name);
    for (const char* asks :
         {"check_client_access cidr:/etc/clients", "check_client_access /etc/clients", "hash:/etc/clients",
          "check_policy_service unix:private/policy", "check_policy_service { inet:[::1]:10031 }"}) {
      const Config c = config(name + asks + "\n", kMaster);
      BOOST_TEST(filters_named(c, "smtpd").any, name + asks);
      BOOST_TEST(!filters_named(c, "pickup").any);
    }
  }
  BOOST_TEST(filters_named(config("smtpd_restriction_classes = strict\nstrict = reject\n", kMaster), "smtpd").any);
  for (const char* setting :
       {"header_checks", "mime_header_checks", "nested_header_checks", "body_checks", "milter_header_checks"})
    for (const char* program : {"smtpd", "pickup"})
      BOOST_TEST(filters_named(config(std::string(setting) + " = regexp:/etc/checks\n", kMaster), program).any,
                 setting);
  const std::string own = kMaster + "587 inet n - n - - smtpd -o header_checks=regexp:/etc/checks\n";
  BOOST_TEST(filters_named(config("", own), "smtpd").any);
}

BOOST_AUTO_TEST_CASE(a_transport_is_named_for_mailboxes_and_where_there_is_none) {
  BOOST_TEST(transports_named(config("", kMaster), "local").named.empty());
  const Config both = config("mailbox_transport = lmtp:unix:private/box\nfallback_transport = smtp:[away.example]\n",
                             kMaster + "other unix - - n - - local -o fallback_transport=uucp:\n");
  BOOST_TEST((transports_named(both, "local").named == Named{"lmtp:unix:private/box", "smtp:[away.example]", "uucp:"}));
  BOOST_TEST(!transports_named(both, "local").any);
  BOOST_TEST((transports_named(both, "smtpd").named == Named{"lmtp:unix:private/box", "smtp:[away.example]"}));
  for (const char* table : {"mailbox_transport_maps", "fallback_transport_maps"})
    BOOST_TEST(transports_named(config(std::string(table) + " = hash:/etc/t\n", kMaster), "local").any);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::config
