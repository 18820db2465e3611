#include "lib/net/tls/known_names.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::tls;

BOOST_AUTO_TEST_SUITE(names_that_openssl_knows)

BOOST_AUTO_TEST_CASE(a_cipher_that_no_openssl_knows_is_found) {
  struct Row {
    const char *list, *unknown;
  };
  for (const Row& row : {
           Row{"", ""},
           // As sites have them, with what is gone from OpenSSL.
           Row{"aNULL, MD5, DES, ADH, RC4, PSD, SRP, 3DES, eNULL", "PSD"},
           Row{"EXPORT LOW EXP EXPORT40 SSLv2 RC4 IDEA kKRB5 CAMELLIA128", ""},
           Row{"aNULL:-aNULL:HIGH:!SEED:!IDEA:!3DES:!RC2:!RC4:!RC5:!kDH:!kECDH:!aDSS:!MD5:@STRENGTH", ""},
           Row{"EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:!LOW:!MD5:@SECLEVEL=1", ""},
           Row{"ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-CHACHA20-POLY1305:EDH-RSA-DES-CBC3-SHA:RC4-SHA", ""},
           Row{"EXP1024-RC4-MD5 KRB5-DES-CBC3-MD5 ADH-AES128-SHA TLS_AES_128_GCM_SHA256", ""},
           Row{"PROFILE=SYSTEM", ""},
           Row{"HIHG:!aNUL:+RC4", "HIHG aNUL"},
           Row{"anull", "anull"},
           Row{"AES256+EECHD", "EECHD"},
           Row{"ECDHE-RSA-AES128-GMC-SHA256", "ECDHE-RSA-AES128-GMC-SHA256"},
       })
    BOOST_TEST(join(unknown_ciphers(row.list), " ") == row.unknown, row.list);
}

BOOST_AUTO_TEST_CASE(groups_of_this_openssl_and_of_newer_ones_are_known) {
  for (const char* name : {"X25519", "prime256v1", "P-256", "secp384r1", "ffdhe2048", "X25519MLKEM768"})
    BOOST_TEST(is_known_group(name), name);
  for (const char* name : {"X25518", "secp256", "ffdhe1000", ""}) BOOST_TEST(!is_known_group(name), name);
}

BOOST_AUTO_TEST_SUITE_END()
