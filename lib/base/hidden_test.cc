#include "lib/base/hidden.h"

#include <boost/test/unit_test.hpp>

namespace pen {

BOOST_AUTO_TEST_SUITE(hidden)

BOOST_AUTO_TEST_CASE(urls_lose_their_user_part) {
  BOOST_TEST(without_user("http://anna:secret@127.0.0.1:9/hook") == "http://127.0.0.1:9/hook");
  BOOST_TEST(without_user("https://key@hooks.example") == "https://hooks.example");
  BOOST_TEST(without_user("https://u:p@a.example/x, https://b.example/?to=c@d.example redis://:pw@h:1") ==
             "https://a.example/x, https://b.example/?to=c@d.example redis://h:1");
  BOOST_TEST(without_user("https://u:p@ss@a.example") == "https://a.example");
  BOOST_TEST(without_user("https://u:p/q@a.example/x") == "https://a.example/x");  // not encoded as it should be
  BOOST_TEST(without_user("cannot reach http://u:p@a: refused") == "cannot reach http://a: refused");
  for (const char* plain : {"", "https://a.example:80/?to=c@d.example", "a@b.example", "hash:/etc/x", "://", "http://",
                            "https://a.example/x"})
    BOOST_TEST(without_user(plain) == plain);
}

BOOST_AUTO_TEST_CASE(names_say_what_is_secret) {
  for (const char* name :
       {"destdb_redis_password", "myldap_bind_pw", "smtp_sasl_password_maps", "event_webhook_secret_file", "x_pass",
        "x_passwd", "X_TOKEN", "hook_api_key", "ldap_key_passphrase"})
    BOOST_TEST(named_secret(name), name);
  for (const char* name : {"myhostname", "smtpd_tls_key_file", "smtpd_tls_cert_file", "mynetworks", "bypass_filter"})
    BOOST_TEST(!named_secret(name), name);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen
