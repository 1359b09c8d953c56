// Package ordersv1connect is the shop's interface for connect-go. Everything but
// this file is generated.
package ordersv1connect
