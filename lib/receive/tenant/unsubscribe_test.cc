#include "lib/receive/tenant/unsubscribe.h"

#include <boost/test/unit_test.hpp>

namespace pen::tenant {
namespace {

using Action = UnsubscribeCheck::Action;

constexpr std::string_view kPost = "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n";
std::string fault(std::string_view unsubscribe, std::string_view post = kPost) {
  return one_click_fault("From: a@b.example\r\n" + std::string(unsubscribe) + std::string(post) + "\r\nbody\r\n");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tenant_unsubscribe)

BOOST_AUTO_TEST_CASE(both_fields_with_an_https_uri_are_enough) {
  BOOST_TEST(fault("List-Unsubscribe: <https://u.example/1>\r\n") == "");
  BOOST_TEST(fault("list-unsubscribe:\r\n <mailto:u@u.example>,\r\n\t<HTTPS://u.example/\r\n 1?x=y>\r\n") == "");
  BOOST_TEST(fault("List-Unsubscribe: (see <x>) <https://u.example/1> (or ask\\) us)\r\n") == "");
  BOOST_TEST(fault("List-Unsubscribe: <https://u.example/1>\r\n",
                   "List-Unsubscribe-Post:\r\n  list-unsubscribe=one-click \r\n") == "");
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_named) {
  BOOST_TEST(fault("").contains("no List-Unsubscribe field"));
  BOOST_TEST(fault("List-Unsubscribe: <mailto:u@u.example>\r\n").contains("no https URI"));
  BOOST_TEST(fault("List-Unsubscribe: https://u.example/1\r\n").contains("no https URI"));
  BOOST_TEST(fault("List-Unsubscribe: (<https://u.example/1>)\r\n").contains("no https URI"));
  BOOST_TEST(fault("List-Unsubscribe: <https:///1>\r\n").contains("no https URI"));
  BOOST_TEST(fault("List-Unsubscribe: <https://u.example/1\r\n").contains("no https URI"));
  BOOST_TEST(fault("List-Unsubscribe: <https://a.example>, <https://b.example>\r\n").contains("more than one https"));
  const std::string one = "List-Unsubscribe: <https://u.example/1>\r\n";
  BOOST_TEST(fault(one + one).contains("more than one List-Unsubscribe field"));
  BOOST_TEST(fault(one, "").contains("no List-Unsubscribe-Post"));
  BOOST_TEST(fault(one, "List-Unsubscribe-Post: yes\r\n").contains("is not \"List-Unsubscribe=One-Click\""));
  BOOST_TEST(fault(one, std::string(kPost) + std::string(kPost)).contains("more than one List-Unsubscribe-Post"));
  // In the body nothing counts.
  BOOST_TEST(one_click_fault("From: a@b.example\r\n\r\n" + one + std::string(kPost)).contains("no List-Unsubscribe"));
}

BOOST_AUTO_TEST_CASE(tables_say_whose_mail_is_checked) {
  config::Settings s;
  BOOST_TEST((UnsubscribeCheck::open(s).value() == nullptr));
  s.list_unsubscribe_check_maps = {
      "inline:{ tenant:acme=reject, news@one.example=warn, one.example=REJECT, own.two.example=dunno, "
      "two.example=reject, bad.example=drop }"};
  const auto check = UnsubscribeCheck::open(s).value();
  const auto action = [&](std::string_view sender, std::string_view tenant = {}) {
    return check->action_for(sender, tenant).value();
  };
  BOOST_TEST((action("News@One.Example") == Action::warn));
  BOOST_TEST((action("jo@one.example") == Action::reject));
  BOOST_TEST((action("news@one.example", "acme") == Action::reject));
  BOOST_TEST((action("jo@sub.one.example", "other") == Action::reject));
  BOOST_TEST((action("jo@own.two.example") == Action::none));
  BOOST_TEST((action("jo@three.example") == Action::none));
  BOOST_TEST((action("") == Action::none));
  BOOST_TEST(!check->action_for("jo@bad.example", "").has_value());
  s.list_unsubscribe_check_maps = {"fail:broken"};
  BOOST_TEST(!UnsubscribeCheck::open(s).value()->action_for("jo@one.example", "").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::tenant
